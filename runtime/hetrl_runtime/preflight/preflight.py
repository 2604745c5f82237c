"""The preflight itself: models, then rows, then the reward; the first fault ends it."""

import tempfile
import threading
from pathlib import Path

from hetrl_core.job.architecture import from_hugging_face
from hetrl_core.job.spec import Engine
from hetrl_core.model.check import ModelProblems, Use
from hetrl_core.model.vllm import vllm_obstacle
from hetrl_core.preflight import DATA_INVALID, MODEL_INVALID, PreflightReport, PreflightRequest
from hetrl_runtime.data.fetching.fetch import fetched
from hetrl_runtime.data.prompt import Unusable
from hetrl_runtime.preflight.fault import Fault
from hetrl_runtime.preflight.models import CheckedModel, checked_model
from hetrl_runtime.preflight.rewards import checked_reward
from hetrl_runtime.preflight.rows import CheckedRows, checked_rows

FETCH_SECONDS = 300.0


def preflight(request: PreflightRequest) -> PreflightReport:
    """Check a job.

    Raises:
        ConnectionError: a hub does not answer, so that nothing is known.
        OSError: a process that scores does not start.
    """
    policy = _checked_models(request)
    if isinstance(policy, Fault):
        return _failed(policy)
    architecture = from_hugging_face(policy.facts.config)
    with tempfile.TemporaryDirectory() as folder:
        rows = _checked_data(request, policy, architecture.vocab_size, Path(folder))
        if isinstance(rows, Fault):
            return _failed(rows)
        notes = checked_reward(request.data, rows)
        if isinstance(notes, Fault):
            return _failed(notes)
    return PreflightReport(
        passed=True,
        notes=(*policy.facts.warnings, *rows.notes, *notes),
        architecture=architecture,
    )


def _checked_models(request: PreflightRequest) -> CheckedModel | Fault:
    data = request.data
    policy = checked_model(request.model, Use.CAUSAL, data.lengths)
    if isinstance(policy, Fault):
        return policy
    obstacle = vllm_obstacle(policy.facts.config) if request.engine is Engine.VLLM else ""
    if obstacle:
        message = ModelProblems((obstacle,)).of(request.model.source)
        return Fault(reason=MODEL_INVALID, message=message)
    judge = checked_model(data.model, Use.REWARD) if data.model else policy
    return judge if isinstance(judge, Fault) else policy


def _checked_data(
    request: PreflightRequest, policy: CheckedModel, vocab_size: int, folder: Path
) -> CheckedRows | Fault:
    data = fetched(
        request.data, state_path=folder, timeout_seconds=FETCH_SECONDS, stop=threading.Event()
    )
    if isinstance(data, Unusable):
        return Fault(reason=DATA_INVALID, message=data.message)
    return checked_rows(data, policy.folder, vocab_size=vocab_size)


def _failed(fault: Fault) -> PreflightReport:
    return PreflightReport(passed=False, reason=fault.reason, message=fault.message)
