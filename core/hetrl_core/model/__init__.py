"""A model's folder without its weights: its family, tensors and context, and what is wrong.

Pure functions over what was read. The command line and the runtime open the files.
"""
