"""Genomes, the values that evolution changes, and their decoding into layouts."""
