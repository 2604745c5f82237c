"""Proves that the operator converges whatever befalls it: `make proof-faults`.

Here belong the list of what befalls it (``cases``), the records of what came of that, and the page
(``page``). The faults themselves, and one job's life, are `e2e.faults`'.
"""
