"""Explanations of a plan or its absence: an upper bound, reasons, alternatives."""
