"""Proof that quick tests notice changed operators: `make proof-mutants`.

Here belong the drawing of mutants (``draw``, which alone uses cosmic-ray), the choice of tests
for each (``quick_tests``), their runs in copies of the checkout (``checkout_copy``), the records,
the known equivalent mutants (``equivalent.toml``) and the page.
"""
