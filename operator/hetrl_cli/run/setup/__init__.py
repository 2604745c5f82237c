"""Everything that a local run needs before its processes start: folder, contracts, ports."""
