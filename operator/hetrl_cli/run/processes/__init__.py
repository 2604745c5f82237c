"""The processes of a local run: start, restart, supervision, and clean-up."""
