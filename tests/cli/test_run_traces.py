"""`hetrl run` with a collector beside it: the whole way of every trajectory, in one trace each."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from hetrl_runtime.tiny.dataset import write_dataset
from hetrl_runtime.tiny.task import Split, Task
from hetrl_runtime.tiny.warm_up import WarmUp
from tests.cli.running import a_job
from tests.runtime.tracing.collector import Collector, Seen, a_collector
from tests.warm_models import copy_warm_model

pytestmark = pytest.mark.slow

STEPS = 8
GROUP_SIZE = 4
BATCH_SIZE = 16
SKEW_NS = 5_000_000
"""Between what two processes of one machine take for the time: each reads it at another moment."""


@dataclass(frozen=True, kw_only=True)
class Traced:
    """A run that is over, and what it sent."""

    collector: Collector
    out: Path

    @property
    def consumed(self) -> list[Seen]:
        """The trajectories that something was trained on."""
        return [
            each
            for each in self.collector.named("trajectory")
            if each.attributes["hetrl.outcome"] == "consumed"
        ]


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    folder = tmp_path_factory.mktemp("traced")
    copy_warm_model(
        folder / "caller", tmp_path_factory, task=Task.PRODUCTS, schedule=WarmUp(steps=30)
    )
    write_dataset(
        folder / "products.jsonl", count=100, seed=1, split=Split.TRAIN, task=Task.PRODUCTS
    )
    job = a_job(
        model="caller",
        prompts="products.jsonl",
        steps=STEPS,
        every=2,
        groupSize=GROUP_SIZE,
        globalBatchSize=BATCH_SIZE,
        data={"tools": ["calculator"], "maxResponseTokens": 40},
    )
    with a_collector() as collector:
        job["spec"]["runtime"]["telemetry"] = {
            "traces": {"endpoint": collector.endpoint, "sampleRatio": 1.0}
        }
        (folder / "job.yaml").write_text(yaml.safe_dump(job))
        ended = subprocess.run(
            [
                Path(sys.executable).parent / "hetrl",
                "run",
                folder / "job.yaml",
                "--out",
                folder / "out",
                "--claim",
                f"data={folder}",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=500,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout
        yield Traced(collector=collector, out=folder / "out")


def test_spans_lie_within_their_parents(traced: Traced) -> None:
    spans = {each.span_id: each for each in traced.collector.spans}
    assert len(spans) == len(traced.collector.spans)
    for each in spans.values():
        assert each.start_ns <= each.end_ns, each
        if not each.parent_id:
            assert each.name in {"group", "step"}
            continue
        parent = spans[each.parent_id]
        assert each.trace_id == parent.trace_id
        assert each.start_ns >= parent.start_ns - SKEW_NS, (each, parent)
        # Writing a checkpoint outlives the step, and a worker hears of an acceptance after it.
        if each.name not in {"write checkpoint", "deliver"}:
            assert each.end_ns <= parent.end_ns + SKEW_NS or (
                parent.attributes.get("hetrl.outcome") == "unfinished"
            ), (each, parent)


def test_consumed_trajectory_was_leased_generated_rewarded_and_delivered_before(
    traced: Traced,
) -> None:
    assert len(traced.consumed) == STEPS * BATCH_SIZE
    for trajectory in traced.consumed:
        parts = traced.collector.children(trajectory)
        by_name = {each.name: each for each in parts}
        assert set(by_name) == {"lease", "generate", "reward", "deliver", "buffer", "consume"}
        assert [by_name[name].service for name in ("lease", "generate", "reward", "consume")] == [
            "hetrl-coordinator",
            "hetrl-rollout",
            "hetrl-rollout",
            "hetrl-coordinator",
        ]
        way = [by_name[name] for name in ("lease", "generate", "reward", "buffer", "consume")]
        for earlier, later in pairwise(way):
            assert earlier.end_ns <= later.start_ns + SKEW_NS, (earlier, later)
        assert by_name["reward"].attributes["hetrl.reward"] == trajectory.attributes["hetrl.reward"]
        assert by_name["deliver"].attributes["hetrl.outcome"] == "accepted"
        made = by_name["generate"].attributes["hetrl.rollout"]
        assert made == trajectory.attributes["hetrl.rollout"]


def is_cancelled(span: Seen) -> bool:
    return bool(span.attributes.get("hetrl.cancelled"))


def test_turns_of_a_response_use_the_generative_ai_conventions(traced: Traced) -> None:
    # At the end of a run, the responses that it does not need are cancelled.
    whole = [each for each in traced.collector.named("generate") if not is_cancelled(each)]
    assert len(whole) >= len(traced.consumed)
    for generate in whole:
        parts = traced.collector.children(generate)
        turns = [each for each in parts if each.name == "text_completion caller"]
        calls = [each for each in parts if each.name.startswith("execute_tool")]
        assert len(turns) + len(calls) == len(parts)
        assert len(calls) in {len(turns) - 1, len(turns)}
        for turn in turns:
            assert (
                turn.attributes.items()
                >= {
                    "gen_ai.operation.name": "text_completion",
                    "gen_ai.request.model": "caller",
                    "gen_ai.request.temperature": 1.0,
                }.items()
            )
            assert turn.attributes["gen_ai.usage.output_tokens"] > 0
            prefill, decode = traced.collector.children(turn)
            assert (prefill.name, decode.name) == ("prefill", "decode")
            assert turn.start_ns <= prefill.end_ns == decode.start_ns <= turn.end_ns
    tools = traced.collector.named("execute_tool")
    assert {each.attributes["gen_ai.tool.name"] for each in tools} >= {"calculator"}


def test_steps_lead_to_what_they_consumed_and_back(traced: Traced) -> None:
    steps = sorted(traced.collector.named("step"), key=lambda each: each.start_ns)
    assert [each.attributes["hetrl.version"] for each in steps] == list(range(STEPS))
    of_step = {number: set(each.links) for number, each in enumerate(steps)}
    for trajectory in traced.consumed:
        version = trajectory.attributes["hetrl.version"]
        assert trajectory.span_id in of_step[version]
        staleness = version - trajectory.attributes["hetrl.oldest_version"]
        assert 0 <= trajectory.attributes["hetrl.staleness"] == staleness <= 2
        consume = next(
            each for each in traced.collector.children(trajectory) if each.name == "consume"
        )
        assert consume.links == (steps[version].span_id,)
    assert sum(map(len, of_step.values())) == len(traced.consumed)
    for step in steps:
        phases = [each.name for each in traced.collector.children(step)]
        assert phases[:4] == ["wait for batch", "train", "publish weights", "commit"]
    assert [each.name for each in traced.collector.children(steps[1])][4:] == [
        "checkpoint",
        "write checkpoint",
    ]


def test_traces_agree_with_what_the_run_wrote_of_itself(traced: Traced) -> None:
    text = (traced.out / "state/coordinator-0/steps.jsonl").read_text()
    recorded = [json.loads(line) for line in text.splitlines()]

    for step in recorded:
        ages: dict[str, int] = {}
        for each in traced.consumed:
            if each.attributes["hetrl.version"] == step["step"] - 1:
                age = str(each.attributes["hetrl.staleness"])
                ages[age] = ages.get(age, 0) + 1
        assert ages == step["staleness"]


def test_spans_contain_no_prompt_or_response(traced: Traced) -> None:
    texts = [
        value
        for each in traced.collector.spans
        for value in each.attributes.values()
        if isinstance(value, str)
    ]

    # Problems of this task are like 123*456=.
    assert not [each for each in texts if "*" in each or "=" in each or "<tool" in each]


def test_processes_name_themselves(traced: Traced) -> None:
    processes = {
        (each.service, each.resource["service.instance.id"]) for each in traced.collector.spans
    }
    assert {name for name, _ in processes} == {
        "hetrl-coordinator",
        "hetrl-rollout",
        "hetrl-trainer",
    }
    # A rollout that joined when all was leased already has nothing to tell.
    at_work = {each.attributes["hetrl.rollout"] for each in traced.collector.named("generate")}
    contracts = {path.stem for path in (traced.out / "launch").glob("*.json")}
    named = {process for _, process in processes}
    assert named <= contracts
    assert {"coordinator-0", "trainer-l4-0-0", *at_work} <= named
