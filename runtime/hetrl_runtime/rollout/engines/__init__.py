"""The engines themselves, one file each, all behind ``rollout.engine.InferenceEngine``.

An engine's library is imported only when that engine is opened: the rollout image of one
engine need not hold the other. Nothing here knows of leases, rewards or the coordinator.
"""

from typing import assert_never

from hetrl_core.job.spec import Engine
from hetrl_runtime.rollout.engine import EngineSettings, InferenceEngine


def open_engine(kind: Engine, settings: EngineSettings) -> InferenceEngine:
    """Return the engine of that kind, not yet started."""
    match kind:
        case Engine.TRANSFORMERS:
            from hetrl_runtime.rollout.engines.transformers import (  # noqa: PLC0415  # see above
                TransformersEngine,
            )

            return TransformersEngine(settings)
        case Engine.VLLM:
            from hetrl_runtime.rollout.engines.vllm import VllmEngine  # noqa: PLC0415  # see above

            return VllmEngine(settings)
    assert_never(kind)
