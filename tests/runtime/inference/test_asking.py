"""Rollouts ask inference workers, over real sockets: answers, refusals, and who dies meanwhile."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from hetrl_core.launch import Address, JobIdentity, Launch
from hetrl_core.task import Task
from hetrl_runtime.inference.model_runner import ModelRunner
from hetrl_runtime.inference.reference import Response
from hetrl_runtime.inference.reward_model import Judged
from hetrl_runtime.inference.service import AskedReference, AskedReward, InferenceService
from hetrl_runtime.metrics.inference import InferenceMetrics
from hetrl_runtime.transport.channel import bind, open_async_server
from hetrl_runtime.transport.clients import inference_client
from hetrl_runtime.transport.clients.inference_client import InferenceClient
from hetrl_runtime.transport.errors import Refused, Unreachable
from hetrl_runtime.wire.hetrl_pb2_grpc import add_InferenceServicer_to_server
from hetrl_runtime.wire.trajectory import LogProbs, SampledTrajectory
from hetrl_runtime.wire.values import InferenceEndpoint
from tests.runtime.certificates import Authority
from tests.runtime.launches import a_launch
from tests.runtime.trajectories import a_trajectory

VOCAB_SIZE = 100

Say = Callable[[Response], LogProbs]


@pytest.fixture(autouse=True)
def short_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let clients ask again soon: how long a worker rests is not tested here."""
    monkeypatch.setattr(inference_client, "REST_SECONDS", 0.05)


def the_sizes(response: Response) -> LogProbs:
    """Say something that tells responses apart."""
    return np.full(response.response_tokens.size, -float(response.num_tokens), np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallTalk:
    """A model that says what a test wants of each response, and counts them."""

    say: Say
    counts: list[int] = field(default_factory=list)
    max_tokens_per_pass: int = 1000

    def look(self, responses: Sequence[Response], /) -> list[LogProbs]:
        """Say it."""
        self.counts.extend(each.num_tokens for each in responses)
        return [self.say(each) for each in responses]


class Words:
    """A reward model whose tokens are letters, and which likes length."""

    max_tokens_per_pass = 1000

    def reads(self, question: str, response: str) -> Judged:
        """Read both."""
        return Judged(tuple(map(ord, question + response)))

    def look(self, judged: Sequence[Judged], /) -> list[float]:
        """Like them."""
        return [float(each.num_tokens) for each in judged]


def unspoken(_: Response) -> LogProbs:
    """Say nothing for longer than anybody waits."""
    time.sleep(1)
    return np.zeros(1, np.float32)


@contextlib.asynccontextmanager
async def a_server(
    launch: Launch,
    say: Say | None = the_sizes,
    *,
    counts: list[int] | None = None,
    words: Words | None = None,
) -> AsyncIterator[InferenceEndpoint]:
    """Serve as a worker does: what a model says, or with ``words`` another's rewards."""
    runners: list[ModelRunner[Any, Any]] = []

    def asked(model: Any) -> ModelRunner[Any, Any]:
        runners.append(ModelRunner(model, note=lambda: None))
        return runners[-1]

    server = open_async_server()
    service = InferenceService(
        launch.job,
        InferenceMetrics(CollectorRegistry()),
        reference=AskedReference(
            runner=asked(SmallTalk(say=say, counts=[] if counts is None else counts)),
            vocab_size=VOCAB_SIZE,
        )
        if say
        else None,
        reward=AskedReward(runner=asked(words), reads=words.reads) if words else None,
    )
    add_InferenceServicer_to_server(service, server)
    port = bind(server, Address(host="127.0.0.1", port=0), launch.tls)
    await server.start()
    answering = [asyncio.create_task(runner.run()) for runner in runners]
    tasks = [Task.REFERENCE_INFERENCE] * bool(say) + [Task.REWARD_INFERENCE] * bool(words)
    try:
        yield InferenceEndpoint(address=f"127.0.0.1:{port}", tasks=tuple(tasks))
    finally:
        for each in answering:
            each.cancel()
        await server.stop(grace=None)


async def asked(client: InferenceClient, sampled: SampledTrajectory) -> LogProbs | None:
    async with asyncio.timeout(30):
        return await client.reference_log_probs(sampled, is_wanted=lambda: True)


@pytest.mark.parametrize("encrypted", [False, True])
async def test_responses_come_back_with_their_own_scores(tmp_path: Path, encrypted: bool) -> None:
    launch = a_launch(
        tmp_path, tls=Authority(tmp_path / "ca").leaf("rollout") if encrypted else None
    )
    several = [a_trajectory(versions=[0] * size) for size in range(1, 9)]

    async with a_server(launch) as address, InferenceClient(launch, process="r-0") as client:
        client.meet([address])
        found = await asyncio.gather(*(asked(client, each) for each in several))

    for log_probs, each in zip(found, several, strict=True):
        assert log_probs is not None
        assert log_probs.tolist() == [-5.0 - each.num_response_tokens] * each.num_response_tokens


async def test_two_share_the_work(tmp_path: Path) -> None:
    launch, counts = a_launch(tmp_path), ([], [])  # type: ignore[var-annotated]

    async with (
        a_server(launch, counts=counts[0]) as one,
        a_server(launch, counts=counts[1]) as other,
        InferenceClient(launch, process="r-0") as client,
    ):
        client.meet([one, other])
        await asyncio.gather(*(asked(client, a_trajectory(versions=[0] * 3)) for _ in range(40)))

    assert min(len(each) for each in counts) >= 15


async def test_silent_worker_gets_no_more_and_another_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference_client, "ANSWER_SECONDS", 0.5)
    launch, counts = a_launch(tmp_path), []  # type: ignore[var-annotated]

    async with (
        a_server(launch, unspoken) as silent,
        a_server(launch, counts=counts) as other,
        InferenceClient(launch, process="r-0") as client,
    ):
        client.meet([silent, other])
        found = await asyncio.gather(*(asked(client, a_trajectory()) for _ in range(10)))

    assert all(each is not None for each in found)
    assert len(counts) == 10


async def test_dying_worker_costs_nothing(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)

    async with (
        contextlib.AsyncExitStack() as dying,
        InferenceClient(launch, process="r-0") as client,
    ):
        gone = await dying.enter_async_context(a_server(launch, unspoken))
        client.meet([gone])
        waiting = [asyncio.create_task(asked(client, a_trajectory())) for _ in range(5)]
        await asyncio.sleep(0.2)
        await dying.aclose()
        async with a_server(launch) as other:
            client.meet([other])
            found = await asyncio.gather(*waiting)

    assert all(each is not None for each in found)


async def test_late_worker_is_awaited(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)

    async with a_server(launch) as address, InferenceClient(launch, process="r-0") as client:
        waiting = asyncio.create_task(asked(client, a_trajectory()))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        client.meet([address])
        assert await waiting is not None


async def test_cancelled_request_is_dropped(tmp_path: Path) -> None:
    async with InferenceClient(a_launch(tmp_path), process="r-0") as client:
        answers = iter([True, False])
        found = await client.reference_log_probs(a_trajectory(), is_wanted=lambda: next(answers))

    assert found is None


async def test_wait_without_workers_ends_with_its_reason(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, startup_deadline_seconds=0.5)

    async with InferenceClient(launch, process="r-0") as client:
        with pytest.raises(Unreachable, match=r"for 0\.5 s; the last problem: none is announced"):
            await asked(client, a_trajectory())


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        pytest.param(
            np.zeros(2, np.float32), "8 bytes of log-probabilities, expected 12", id="few"
        ),
        pytest.param(np.full(3, np.nan, np.float32), "not a number", id="not a number"),
        pytest.param(np.full(3, 0.5, np.float32), "above 0", id="no probability"),
    ],
)
async def test_words_that_cannot_be_are_not_believed(
    tmp_path: Path, words: LogProbs, reason: str
) -> None:
    launch = a_launch(tmp_path, startup_deadline_seconds=0.5)

    async with (
        a_server(launch, lambda _: words) as address,
        InferenceClient(launch, process="r-0") as client,
    ):
        client.meet([address])
        with pytest.raises(Unreachable, match=reason):
            await asked(client, a_trajectory())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param(
            {"response_tokens": np.array([1, VOCAB_SIZE, 3], np.int32)},
            "response_tokens has tokens from 1 to 100, must be >= 0 and < 100",
            id="response",
        ),
        pytest.param(
            {"prompt_tokens": np.array([-1], np.int32)},
            "prompt_tokens has tokens from -1 to -1",
            id="prompt",
        ),
        pytest.param(
            {"response_tokens": np.array([], np.int32)}, "response_tokens is empty", id="nothing"
        ),
    ],
)
async def test_unreadable_request_is_refused_by_name(
    tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    launch = a_launch(tmp_path)

    async with a_server(launch) as address, InferenceClient(launch, process="r-0") as client:
        client.meet([address])
        with pytest.raises(Refused, match=reason):
            await asked(client, replace(a_trajectory(), **changes))  # type: ignore[arg-type]


async def test_rollout_of_another_job_is_refused(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    stranger = replace(launch, job=JobIdentity(namespace="default", name="other", uid="2"))

    async with a_server(launch) as address, InferenceClient(stranger, process="r-0") as client:
        client.meet([address])
        with pytest.raises(Refused, match="this worker is of job"):
            await asked(client, a_trajectory())


async def test_certificate_of_another_authority_is_not_let_in(tmp_path: Path) -> None:
    launch = a_launch(
        tmp_path, tls=Authority(tmp_path / "ours").leaf("rollout"), startup_deadline_seconds=1.0
    )
    stranger = replace(launch, tls=Authority(tmp_path / "theirs").leaf("rollout"))

    async with a_server(launch) as address, InferenceClient(stranger, process="r-0") as client:
        client.meet([address])
        with pytest.raises(Unreachable, match=grpc.StatusCode.UNAVAILABLE.name):
            await asked(client, a_trajectory())


async def test_response_is_judged_by_workers_with_the_reward_model(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)

    async with (
        a_server(launch) as one,
        a_server(launch, None, words=Words()) as other,
        InferenceClient(launch, process="r-0") as client,
    ):
        client.meet([one, other])
        found = await asyncio.gather(
            *(client.reward("What?", "x" * size, is_wanted=lambda: True) for size in range(5))
        )
        said = await asked(client, a_trajectory())

    assert found == [5.0, 6.0, 7.0, 8.0, 9.0]
    assert said is not None


async def test_empty_response_is_not_judged(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)

    async with (
        a_server(launch, None, words=Words()) as endpoint,
        InferenceClient(launch, process="r-0") as client,
    ):
        client.meet([endpoint])
        with pytest.raises(Refused, match="question and response are empty"):
            await client.reward("", "", is_wanted=lambda: True)


async def test_worker_without_its_announced_model_is_not_the_last_resort(
    tmp_path: Path,
) -> None:
    launch = a_launch(tmp_path)

    async with (
        a_server(launch) as old,
        a_server(launch, None, words=Words()) as other,
        InferenceClient(launch, process="r-0") as client,
    ):
        client.meet([replace(old, tasks=(Task.REWARD_INFERENCE,)), other])
        found = [await client.reward("a", "b", is_wanted=lambda: True) for _ in range(3)]

    assert found == [2.0] * 3
