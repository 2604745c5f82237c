"""The coordinator's rules as the simulator plays them: leases, staleness ledger, queue."""
