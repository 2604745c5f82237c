"""vLLM ignores settings that it does not know, with a warning that our log level hides."""

from importlib.util import find_spec

import pytest

from hetrl_runtime.rollout.program import VLLM_SETTINGS

pytestmark = [
    pytest.mark.skipif(find_spec("vllm") is None, reason="needs vLLM: make setup-vllm"),
    pytest.mark.engine,
]


def test_vllm_knows_every_setting_that_a_rollout_worker_gives_it() -> None:
    from vllm import envs  # noqa: PLC0415  # only its own environment has it

    assert VLLM_SETTINGS.keys() <= envs.environment_variables.keys()
