"""The levels of HetRL's search: successive halving, evolution, descent."""
