"""Groups and prompts that a run leaves out: by their rewards, failures or rows."""

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from hetrl_core.job.spec import DataSpec
from hetrl_core.launch import Launch
from hetrl_core.task import Role
from hetrl_runtime.coordinator.run import Run
from hetrl_runtime.wire import codec
from hetrl_runtime.wire.trajectory import FailedTrajectory, TrajectoryId
from hetrl_runtime.wire.values import (
    NO_LEARNING_SIGNAL,
    Outcome,
)
from tests.runtime.coordinator.runs import (
    WORKER,
    a_run,
    fail,
    generate,
    register,
    train,
)
from tests.runtime.launches import a_launch, a_prompt_file


def sampled_dynamically(tmp_path: Path, *, is_asked: bool = True) -> Launch:
    launch = a_launch(tmp_path)
    return replace(launch, algorithm=replace(launch.algorithm, dynamic_sampling=is_asked))


def by_chance(identity: TrajectoryId) -> float:
    """All members of every other group are right; of the others, one."""
    return float(identity.group % 2 == 0 or identity.member == 0)


@pytest.mark.parametrize(
    ("is_asked", "trained"), [(True, {1, 3}), (False, {0, 1})], ids=["asked", "not asked"]
)
def test_groups_that_teach_nothing_make_room_for_others(
    tmp_path: Path, *, is_asked: bool, trained: set[int]
) -> None:
    with a_run(sampled_dynamically(tmp_path, is_asked=is_asked)) as run:
        register(run, Role.TRAINER)
        register(run, Role.ROLLOUT)
        generate(run, now=1.0, reward=by_chance)

        assert {each.group for each in run.batch(now=1.0)} == trained


def test_groups_that_were_left_out_stay_so_after_a_restart(tmp_path: Path) -> None:
    launch = sampled_dynamically(tmp_path)
    with a_run(launch) as run:
        register(run, Role.TRAINER)
        register(run, Role.ROLLOUT)
        generate(run, now=1.0, reward=by_chance)
        before = run.state.buffered()
    with a_run(launch, now=2.0) as again:
        assert {each.id for each in again.state.buffered()} == {each.id for each in before}
        register(again, Role.ROLLOUT, now=2.0)
        train(again, now=2.0)
        leased = generate(again, now=3.0, reward=by_chance)
        assert not {each.group for each in leased} & {each.group for each in before}


def test_run_in_which_no_group_teaches_ends_with_reason(tmp_path: Path) -> None:
    with a_run(sampled_dynamically(tmp_path)) as run:
        register(run, Role.TRAINER)
        register(run, Role.ROLLOUT)
        generate(run, now=1.0)

        assert run.ending is not None
        assert run.ending.reason == NO_LEARNING_SIGNAL
        assert "20 groups in a row" in run.ending.message


def judge_none(run: Run, *, most: int) -> set[Outcome]:
    """Deliver responses without rewards, while prompts are leased."""
    outcomes: set[Outcome] = set()
    for _ in range(most):
        leases = run.lease(WORKER, worker_version=0, max_trajectories=1, now=1.0)
        assert isinstance(leases, tuple)
        for identity in (each for lease in leases for each in lease.ids):
            failed = FailedTrajectory(
                group=identity.group,
                member=identity.member,
                epoch=run.state.epoch,
                process=WORKER,
                error="the reward was not judged: FunctionRaised: KeyError: 'x'",
                unjudged="FunctionRaised",
            )
            (receipt,) = run.deliver([codec.encode_trajectory(failed)], now=1.0)
            outcomes.add(codec.decode_receipt(receipt)[1])
    return outcomes


def test_reward_that_judges_nothing_ends_the_run_with_its_error(tmp_path: Path) -> None:
    with a_run(a_launch(tmp_path, group_size=4, global_batch_size=8)) as run:
        register(run, Role.TRAINER)
        register(run, Role.ROLLOUT)

        assert judge_none(run, most=100) == {Outcome.UNJUDGED}

        assert run.ending
        assert run.ending.reason == "RewardFailed"
        assert "KeyError: 'x'" in run.ending.message


def test_group_with_too_few_rewards_makes_room_for_another(tmp_path: Path) -> None:
    with a_run(a_launch(tmp_path, group_size=4, global_batch_size=8)) as run:
        register(run, Role.TRAINER)
        register(run, Role.ROLLOUT)
        judge_none(run, most=3)

        assert 0 not in {each.group for each in generate(run, now=2.0)}
        assert {each.group for each in run.batch(now=2.0)} == {1, 2}


def test_prompt_that_is_too_long_is_tried_once(tmp_path: Path) -> None:
    data = DataSpec(prompts=str(a_prompt_file(tmp_path / "two.jsonl", num_prompts=2)))
    launch = a_launch(tmp_path, data=data, steps=9)
    with a_run(launch) as run:
        register(run, Role.TRAINER)
        register(run, Role.ROLLOUT)
        leases = run.lease(WORKER, worker_version=0, max_trajectories=2, now=1.0)
        assert isinstance(leases, tuple)
        (lease,) = leases
        assert fail(run, lease.ids[0], left_out="PromptTooLong") is Outcome.LEFT_OUT
        assert fail(run, lease.ids[1], left_out="PromptTooLong") is Outcome.DUPLICATE

        for _ in range(3):
            leases = run.lease(
                WORKER, worker_version=run.state.version, max_trajectories=8, now=2.0
            )
            assert isinstance(leases, tuple)
            assert lease.question not in {each.question for each in leases}
            run.state.release(WORKER)
            generate(run, now=2.0)
            train(run, now=2.0)
        (notice,) = run.progress().notices
        assert notice.startswith("1 of 2 prompts are longer than data.maxPromptTokens")

    with a_run(launch, now=3.0) as again:
        assert tuple(again.progress().notices) == (notice,)
    limit = replace(launch, data=replace(data, max_prompt_tokens=600))
    with a_run(limit, now=3.0) as again:
        assert not again.progress().notices


def test_run_whose_prompts_are_all_too_long_says_so(tmp_path: Path) -> None:
    data = DataSpec(prompts=str(a_prompt_file(tmp_path / "two.jsonl", num_prompts=2)))
    with a_run(a_launch(tmp_path, data=data)) as run:
        register(run, Role.TRAINER)
        register(run, Role.ROLLOUT)
        while leases := run.lease(WORKER, worker_version=0, max_trajectories=1, now=1.0):
            assert isinstance(leases, tuple)
            fail(run, leases[0].ids[0], left_out="PromptTooLong")

        assert run.ending
        assert run.ending.reason == "DataInvalid"
        assert "no prompt can be used: 2 of 2 prompts are longer" in run.ending.message


def test_row_that_changed_is_left_out_and_named(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, steps=20)
    path = Path(launch.data.prompts)
    with a_run(launch) as run:
        register(run, Role.TRAINER)
        register(run, Role.ROLLOUT)
        # In place: the place of the other lines stays.
        path.write_text(
            path.read_text().replace('"question": "What is 3', '"questiom": "What is 3')
        )

        assert {each.group for each in generate(run, now=1.0)}
        train(run, now=1.0)
        for _ in range(8):
            generate(run, now=2.0)
            if run.state.batch():
                train(run, now=2.0)

        (notice,) = run.progress().notices
        assert notice.startswith("1 of 16 prompts could not be read")
        assert f"{path}:4: has no 'question'" in notice


@pytest.mark.parametrize("restarts_coordinator", [False, True])
def test_batch_that_ended_two_trainers_is_set_aside(
    tmp_path: Path, *, restarts_coordinator: bool
) -> None:
    launch = a_launch(tmp_path)
    with contextlib.ExitStack() as runs:
        run = runs.enter_context(a_run(launch))
        register(run, Role.TRAINER, instance="first")
        register(run, Role.ROLLOUT)
        generate(run, now=1.0)
        poison = [each.id for each in run.batch(now=1.0)]
        register(run, Role.TRAINER, instance="second")
        if restarts_coordinator:
            runs.pop_all().close()
            run = runs.enter_context(a_run(launch, now=2.0))
            register(run, Role.TRAINER, instance="second", now=2.0)
            register(run, Role.ROLLOUT, now=2.0)

        assert [each.id for each in run.batch(now=3.0)] == poison
        register(run, Role.TRAINER, instance="third", now=3.0)
        generate(run, now=4.0)
        assert not {each.id for each in run.batch(now=4.0)} & set(poison)
        train(run, now=4.0)

        kept = (Path(launch.state_path) / "quarantine.jsonl").read_text().splitlines()
        assert [json.loads(each)["id"] for each in kept] == [str(each) for each in poison]
        (notice,) = run.progress().notices
        assert notice.startswith(f"{len(poison)} trajectories ended the trainer twice")
        assert notice.endswith(f"the first is {poison[0]} on line {json.loads(kept[0])['line']}")


def test_batch_that_was_trained_on_blames_nobody(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, steps=9)
    with a_run(launch) as run:
        register(run, Role.TRAINER)
        register(run, Role.ROLLOUT)
        for number in range(4):
            generate(run, now=1.0)
            run.batch(now=1.0)
            train(run, now=1.0)
            version = run.state.version
            register(run, Role.TRAINER, instance=f"restart {number}", version=version)

        assert not (Path(launch.state_path) / "quarantine.jsonl").exists()
        assert not run.state.broke_once
