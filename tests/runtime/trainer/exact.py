"""Products in float32 whatever a CPU knows: for numbers that are compared with a definition's."""

from unittest.mock import patch

from hetrl_runtime.compute import precision


def multiply_exactly() -> None:
    """Do so from now on in this process, which is a test's own."""
    patch.object(precision, "cpu_multiplies_bfloat16", return_value=False).start()
