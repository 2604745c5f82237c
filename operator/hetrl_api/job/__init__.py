"""HetRLJob: the fields of its spec and status, and the conversion to the core's ``JobSpec``."""
