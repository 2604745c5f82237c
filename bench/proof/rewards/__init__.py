"""Proof that rewards do not depend on how busy a machine is: `make proof-rewards DATA=...`."""
