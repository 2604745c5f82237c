"""The rules of a run without I/O: leases, acceptance, batches, failures, deadlines."""
