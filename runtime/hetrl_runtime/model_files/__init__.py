"""A model's files on this machine: where they are, their check, and errors of loading them."""
