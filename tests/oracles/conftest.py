"""The tests of this folder run where TRL and verl are installed, and nowhere else."""

from importlib.util import find_spec

import torch

if find_spec("verl") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    # Tensors are small here: on a busy machine, threads wait for each other longer than they work.
    torch.set_num_threads(1)
