"""Proof that the operator converges after any fault: `make proof-faults`.

The package has the list of faults (``cases``), the records of their outcomes, and the page
(``page``). The faults themselves, and one job's life, are `e2e.faults`'.
"""
