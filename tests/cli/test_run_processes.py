"""`hetrl run` from the outside: real processes, killed and interrupted on the way."""

import json
import signal
import time
from collections.abc import Callable, Iterator
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest

from hetrl_core.plan.groupings import (
    CRITIC,
    GENERATES,
    GROUPINGS,
    TRAINS,
    TaskGroup,
    grouping,
    named,
)
from hetrl_core.task import Role, Task, role_of
from hetrl_runtime.tiny.dataset import write_dataset
from hetrl_runtime.tiny.task import Split
from hetrl_runtime.tiny.task import Task as TinyTask
from hetrl_runtime.tiny.warm_up import WarmUp
from hetrl_runtime.wire.trajectory import TOOL_VERSION
from tests.cli.plans import write_plan
from tests.cli.running import STEPS, TIMEOUT_SECONDS, Run, largest_staleness
from tests.runtime.inference.models import save_reward_model
from tests.warm_models import copy_warm_model

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def claim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model that is right now and then, and problems for it."""
    folder = tmp_path_factory.mktemp("claim")
    copy_warm_model(folder / "model", tmp_path_factory, schedule=WarmUp(steps=200))
    write_dataset(folder / "train.jsonl", count=500, seed=1, split=Split.TRAIN)
    save_reward_model(folder / "judge")
    hopeless = [{"question": "1+1=", "answer": "three"}] * 50
    copy_warm_model(
        folder / "caller", tmp_path_factory, task=TinyTask.PRODUCTS, schedule=WarmUp(steps=30)
    )
    write_dataset(
        folder / "products.jsonl", count=100, seed=1, split=Split.TRAIN, task=TinyTask.PRODUCTS
    )
    (folder / "hopeless.jsonl").write_text("".join(json.dumps(each) + "\n" for each in hopeless))
    return folder


@pytest.fixture
def start(tmp_path: Path, claim: Path) -> Iterator[Callable[..., Run]]:
    """Start runs; none of them outlives the test."""
    runs: list[Run] = []

    def begin(*options: str, **changes: Any) -> Run:
        runs.append(Run(tmp_path, claim, *options, **changes))
        return runs[-1]

    yield begin
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
            run.process.communicate(timeout=TIMEOUT_SECONDS)


def test_run_survives_the_death_of_every_process(start: Callable[..., Run]) -> None:
    run = start()

    run.wait_for_step(2)
    run.kill("rollout-")
    run.wait_for_step(5)
    run.kill("coordinator-")
    run.wait_for_step(9)
    # Neither a rollout's death nor the coordinator's costs a step.
    assert [step["step"] for step in run.steps[:9]] == list(range(1, 10))
    run.wait_for_step(15)
    run.kill("trainer-")
    code, said = run.finish()

    assert code == 0, said
    assert "coordinator-0 was killed by signal 9; restarting" in said
    for pod in ("rollout-", "trainer-"):
        assert pod in said
    assert said.count("was killed by signal 9; restarting") >= 4
    assert run.result == run.result | {"outcome": "Succeeded", "step": STEPS}
    # The trainer went back to a checkpoint, and not further.
    numbers = [step["step"] for step in run.steps]
    assert sorted(set(numbers)) == list(range(1, STEPS + 1))
    again = next(after for before, after in pairwise(numbers) if after <= before)
    assert again > 10
    assert largest_staleness(run) <= 2
    assert (run.out / "checkpoints" / f"step-{STEPS:08d}" / "model.safetensors").exists()
    assert 'alt="Which machine does what' in (run.out / "report/index.html").read_text()
    assert run.pids() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_interrupted_run_leaves_no_process_and_is_resumed(
    start: Callable[..., Run], number: signal.Signals
) -> None:
    run = start(steps=1000)
    run.wait_for_step(5)
    run.process.send_signal(number)

    code, said = run.finish()

    assert code == 128 + number, said
    assert "continue with --resume" in said
    assert run.pids() == []
    done = run.steps[-1]["step"]
    assert 5 <= done < 1000

    resumed = start("--resume", steps=done + 4)
    code, said = resumed.finish()

    assert code == 0, said
    # What was trained before the interrupt was kept by the checkpoint that SIGTERM asks for.
    assert [step["step"] for step in resumed.steps] == list(range(1, done + 5))

    code, said = start(steps=done + 4).finish()

    assert code == 1
    assert "continue its run with --resume" in said


def test_weights_are_broadcast_also_after_a_member_died(start: Callable[..., Run]) -> None:
    # It learns next to nothing, lest all answers are right before both workers are back.
    run = start(weights="Nccl", steps=10_000, rate=1e-7)

    run.wait_until(lambda: rounds_of_both(run) >= 3)
    run.kill("rollout-")
    before = rounds_of_both(run)
    # One may have been under way.
    run.wait_until(lambda: rounds_of_both(run) >= before + 3)
    run.process.send_signal(signal.SIGINT)
    code, said = run.finish()

    assert code == 128 + signal.SIGINT, said
    assert largest_staleness(run) <= 2


def rounds_of_both(run: Run) -> int:
    """Count the broadcasts to both workers."""
    log = run.out / "logs/trainer-l4-0-0.log"
    lines = log.read_text().splitlines() if log.exists() else ()
    return sum("weights broadcast:" in line and "readers=2" in line for line in lines)


def test_run_whose_owner_is_killed_leaves_no_process(start: Callable[..., Run]) -> None:
    run = start(steps=1000)
    run.wait_until(lambda: len(run.pids()) >= 4 and any((run.out / "state").rglob("journal*")))

    run.process.kill()
    _, said = run.finish()

    deadline = time.monotonic() + 60
    while run.pids():
        assert time.monotonic() < deadline, f"still running: {run.pids()}\n{said}"
        time.sleep(0.1)


def test_rewards_that_never_vary_end_the_run_with_that_reason(start: Callable[..., Run]) -> None:
    run = start(prompts="hopeless.jsonl", steps=1000)

    code, said = run.finish()

    assert code == 1
    assert "Error: NoLearningSignal: every reward of the last 10 steps was 0" in said
    assert run.result["reason"] == "NoLearningSignal"
    assert len(run.steps) < 20
    assert "Traceback" not in said
    assert run.pids() == []


A, T, REFERENCE, REWARD = (
    frozenset({each})
    for each in (
        Task.ACTOR_GENERATION,
        Task.ACTOR_TRAINING,
        Task.REFERENCE_INFERENCE,
        Task.REWARD_INFERENCE,
    )
)
AT_EACH_LANDING = {
    frozenset({A | T | CRITIC | REFERENCE | REWARD}),
    frozenset({A, T, CRITIC, REFERENCE, REWARD}),
    frozenset({A | T, CRITIC | REFERENCE | REWARD}),
    frozenset({A | CRITIC, T | REWARD, REFERENCE}),
    frozenset({A | REFERENCE | REWARD, T | CRITIC}),
    frozenset({A, T | REFERENCE, CRITIC | REWARD}),
}
"""Any two of what they do are together in one of them, and apart in another."""

PPO_GROUPINGS = [
    pytest.param(
        each,
        id=", ".join(sorted(named(group) for group in each)),
        marks=() if each in AT_EACH_LANDING else pytest.mark.proof,
    )
    for each in GROUPINGS
    if any(Task.CRITIC_TRAINING in group for group in each)
]


def test_groupings_cover_any_two_tasks_together_and_apart() -> None:
    seen = {
        (first, second): {any({first, second} <= group for group in each) for each in together}
        for together in [AT_EACH_LANDING]
        for first, second in combinations(Task, 2)
    }
    critics = {Task.CRITIC_INFERENCE, Task.CRITIC_TRAINING}
    assert all(seen[pair] == {True, False} for pair in seen if set(pair) != critics)


@pytest.mark.parametrize("tasks", PPO_GROUPINGS)
def test_ppo_completes_in_every_grouping_and_survives_a_death(
    start: Callable[..., Run], tmp_path: Path, tasks: frozenset[TaskGroup]
) -> None:
    has_reference, is_judged = (
        any(task in group for group in tasks)
        for task in (Task.REFERENCE_INFERENCE, Task.REWARD_INFERENCE)
    )
    judge = {"reward": "model", "model": {"source": {"claim": {"name": "data", "path": "judge"}}}}
    plan = write_plan(tmp_path, sorted(tasks, key=named), num_layers=3)
    run = start(
        *plan,
        steps=6,
        every=2,
        type="PPO",
        groupSize=2,
        globalBatchSize=16,
        critic={"learningRate": 1e-3},
        klCoefficient=0.1 if has_reference else 0.0,
        data=judge if is_judged else {},
        rollouts=1,
        gpus=len(tasks),
    )
    roles = {str(role_of(group)) for group in tasks}

    run.wait_for_step(3)
    run.kill("inference-" if Role.INFERENCE in roles else "trainer-")
    code, said = run.finish()

    assert code == 0, said
    assert run.result == run.result | {"outcome": "Succeeded", "step": 6}
    planned = json.loads((run.out / "plan.json").read_text())
    assert grouping(map(Task, group["tasks"]) for group in planned["groups"]) == tasks
    contracts = [json.loads(path.read_text()) for path in (run.out / "launch").glob("*.json")]
    assert {each["role"] for each in contracts} == {"coordinator", *roles}
    for each in contracts:
        assert Path(each["tls"]["certificate"]).parent == run.out / "tls"
    metrics = {step["step"]: step["metrics"] for step in run.steps}
    assert all("explained_variance" in each for each in metrics.values())
    assert all((metrics[step]["reference_kl"] > 0) is has_reference for step in range(2, 7))
    # A critic that had started from scratch would say zero of everything again.
    assert metrics[1]["value_mean"] == 0
    assert all(metrics[step]["value_mean"] for step in range(2, 7))
    assert largest_staleness(run) <= 2
    exact = all(step["reward_mean"] * 16 == round(step["reward_mean"] * 16) for step in run.steps)
    assert exact is not is_judged


def test_plan_that_does_not_fit_is_refused_by_field(
    start: Callable[..., Run], tmp_path: Path
) -> None:
    plan = write_plan(tmp_path, [GENERATES, TRAINS[0]], num_layers=7)

    code, said = start(*plan, rollouts=1).finish()

    assert code == 1
    assert "plan.yaml does not fit: spec.groups[0]" in said
    assert "7" in said


def test_policy_calls_its_tool_and_does_not_train_on_results(
    start: Callable[..., Run],
) -> None:
    run = start(
        model="caller",
        prompts="products.jsonl",
        steps=9,
        every=3,
        groupSize=4,
        globalBatchSize=32,
        data={"tools": ["calculator"], "maxResponseTokens": 40},
    )

    code, said = run.finish()

    assert code == 0, said
    assert largest_staleness(run) <= 2
    assert sum(step["called_tools"] for step in run.steps) > 0
    samples = (run.out / "state/coordinator-0/samples.jsonl").read_text().splitlines()
    # By its version, not by its marks: a model may write the marks of a result by itself.
    results = [
        each
        for each in map(json.loads, samples)
        if any(version == TOOL_VERSION for version, _ in each["version_tokens"])
    ]
    assert results
    for each in results:
        assert "</tool_call><tool_response>" in each["response"]
        assert 0 <= each["staleness"] <= 2
    assert "share that calls a tool" in (run.out / "report/index.html").read_text()
