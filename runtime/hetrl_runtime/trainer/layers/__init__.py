"""Model families that are known from inside, packed sequences, and layers for CPUs."""
