"""What tests on a GPU share: the GPU, and the reason why they are skipped without one."""

import pytest
import torch

from tests.runtime.trainer.parallel.conftest import models

__all__ = ["GPU", "models", "needs_a_gpu"]

GPU = torch.device("cuda", 0)

needs_a_gpu = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.gpu,
    pytest.mark.slow,
]
