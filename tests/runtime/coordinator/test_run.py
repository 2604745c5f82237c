"""A run's coordinator without sockets, on a clock of the test's own."""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from hetrl_core.job.spec import DataSpec, ModelFiles, TrainingSpec
from hetrl_core.launch import Launch
from hetrl_core.task import Role, Task
from hetrl_runtime.coordinator.journal.run_journal import RunJournal
from hetrl_runtime.coordinator.rules.members import Member
from hetrl_runtime.coordinator.rules.prompts import Prompts
from hetrl_runtime.coordinator.run import Run
from hetrl_runtime.data.open_prompts import open_prompts
from hetrl_runtime.data.prompt import Unusable
from hetrl_runtime.metrics.coordinator import CoordinatorMetrics
from hetrl_runtime.tracing.span import NO_TRACER, Tracer
from hetrl_runtime.wire import codec
from hetrl_runtime.wire.trajectory import FailedTrajectory, TrajectoryId
from hetrl_runtime.wire.values import (
    ALL_STEPS_DONE,
    NO_LEARNING_SIGNAL,
    Ending,
    InferenceEndpoint,
    Outcome,
    ProcessStatus,
    Registration,
    ResumePoint,
    StepReport,
)
from tests.runtime.launches import a_launch, a_prompt_file
from tests.runtime.trajectories import a_trajectory

WORKER = "rollout-0"


@contextlib.contextmanager
def a_run(launch: Launch, *, now: float = 0.0, tracer: Tracer = NO_TRACER) -> Iterator[Run]:
    prompts = open_prompts(launch.data.prompts)
    assert not isinstance(prompts, Unusable)
    metrics = CoordinatorMetrics(CollectorRegistry())
    with contextlib.closing(prompts):
        run = Run(
            launch, Prompts(prompts, seed=1), metrics, first_epoch=100, now=now, tracer=tracer
        )
        with contextlib.closing(run):
            yield run


def register(
    run: Run, role: Role, *, now: float = 0.0, instance: str = "first", version: int = 0
) -> Registration:
    process = WORKER if role is Role.ROLLOUT else "trainer-0"
    member = Member(process=process, role=role, pod_set="set", instance=instance, seen_at=now)
    resume = ResumePoint(version=version) if role is Role.TRAINER else None
    return run.register(member, resume=resume, now=now)


def generate(
    run: Run, *, now: float, reward: Callable[[TrajectoryId], float] = lambda _: 1.0
) -> list[TrajectoryId]:
    """Lease and deliver until the bound is full."""
    done: list[TrajectoryId] = []
    while True:
        leases = run.lease(WORKER, worker_version=run.state.version, max_trajectories=8, now=now)
        assert isinstance(leases, tuple)
        if not leases:
            return done
        for identity in (each for lease in leases for each in lease.ids):
            trajectory = a_trajectory(
                *identity,
                versions=(run.state.version,),
                epoch=run.state.epoch,
                process=WORKER,
                reward=reward(identity),
            )
            (receipt,) = run.deliver([codec.encode_trajectory(trajectory)], now=now)
            assert codec.decode_receipt(receipt)[1] is Outcome.ACCEPTED
            done.append(identity)


def train(run: Run, *, now: float) -> None:
    ids = [each.id for each in run.batch(now=now)]
    done = run.commit(
        run.state.version + 1,
        consumed=ids,
        discarded=[],
        report=StepReport(metrics={"loss": 0.5}),
        ending=None,
        now=now,
    )
    assert isinstance(done, ResumePoint)


def be_alive(run: Run, *, now: float) -> None:
    for process in (WORKER, "trainer-0"):
        run.heartbeat(process, ProcessStatus(), (), now=now)


def test_prompts_are_not_leased_before_a_trainer_registers(tmp_path: Path) -> None:
    with a_run(a_launch(tmp_path)) as run:
        register(run, Role.ROLLOUT)

        assert run.lease(WORKER, worker_version=0, max_trajectories=4, now=0.0) == ()


def test_long_training_step_is_not_held_against_generation(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, startup_deadline_seconds=30.0, steps=9)
    with a_run(launch) as run:
        register(run, Role.TRAINER)
        register(run, Role.ROLLOUT)
        generate(run, now=1.0)
        run.batch(now=1.0)
        be_alive(run, now=29.0)
        run.tick(now=29.0)

        train(run, now=30.0)
        be_alive(run, now=45.0)
        run.tick(now=45.0)

        assert run.ending is None


def test_run_that_is_asked_for_curves_draws_them(tmp_path: Path) -> None:
    training = TrainingSpec(steps=3, tensorboard_path=str(tmp_path / "curves"))
    with a_run(a_launch(tmp_path, training=training)) as run:
        register(run, Role.TRAINER)
        register(run, Role.ROLLOUT)
        generate(run, now=1.0)
        train(run, now=2.0)

    (file,) = (tmp_path / "curves").iterdir()
    assert b"run/reward_mean" in file.read_bytes()


def test_generation_that_stands_still_ends_the_run(tmp_path: Path) -> None:
    with a_run(a_launch(tmp_path, startup_deadline_seconds=30.0)) as run:
        register(run, Role.TRAINER)
        register(run, Role.ROLLOUT)
        be_alive(run, now=31.0)
        run.tick(now=31.0)

        assert run.ending
        assert run.ending.reason == "RolloutFailed"


def a_member(process: str, role: Role, *, now: float, **more: Any) -> Member:
    return Member(process=process, role=role, pod_set="set", instance="one", seen_at=now, **more)


def test_run_awaiting_processes_names_them_and_ends_without_them(
    tmp_path: Path,
) -> None:
    data = DataSpec(
        prompts=str(a_prompt_file(tmp_path / "prompts.jsonl")),
        reward="model",
        model=ModelFiles(source="judge"),
    )
    launch = a_launch(tmp_path, data=data, startup_deadline_seconds=30.0)
    reference, judge = (
        InferenceEndpoint(address=f"127.0.0.1:{port}", tasks=(task,))
        for port, task in ((1, Task.REFERENCE_INFERENCE), (2, Task.REWARD_INFERENCE))
    )
    with a_run(launch) as run:
        trainer = a_member("trainer-0", Role.TRAINER, now=0.0, needs_reference=True)
        run.register(trainer, resume=ResumePoint(), now=0.0)
        register(run, Role.ROLLOUT)
        for name, endpoint in (("inference-0", reference), ("inference-1", judge)):
            assert run.progress().waiting_for == "no inference worker is here yet"
            assert endpoint not in run.announcement(WORKER, now=1.0).inference_endpoints
            member = a_member(name, Role.INFERENCE, now=1.0, inference=endpoint)
            run.register(member, resume=None, now=1.0)
        assert run.progress().waiting_for != "no inference worker is here yet"
        assert set(run.announcement(WORKER, now=1.0).inference_endpoints) == {reference, judge}

        run.leave("inference-1")
        for now in (10.0, 20.0, 30.0, 40.0):
            be_alive(run, now=now)
            run.heartbeat("inference-0", ProcessStatus(), (), now=now)
            run.tick(now=now)

    assert run.ending
    assert run.ending.reason == "InferenceFailed"
    assert "nothing was heard of any inference worker for 39 s" in run.ending.message


def test_processes_that_left_for_a_moment_are_not_missing(tmp_path: Path) -> None:
    with a_run(a_launch(tmp_path, startup_deadline_seconds=30.0)) as run:
        register(run, Role.TRAINER, now=28.0)
        register(run, Role.ROLLOUT, now=28.0)
        run.leave("trainer-0")
        run.leave(WORKER)

        run.tick(now=40.0)
        assert run.ending is None

        run.tick(now=70.0)
        assert run.ending


def test_silent_process_is_no_member_any_more(tmp_path: Path) -> None:
    with a_run(a_launch(tmp_path, startup_deadline_seconds=600.0)) as run:
        epoch = register(run, Role.TRAINER).epoch
        register(run, Role.ROLLOUT)
        run.heartbeat("trainer-0", ProcessStatus(), (), now=61.0)

        run.tick(now=61.0)

        assert not run.knows(WORKER, epoch=epoch)
        assert run.knows("trainer-0", epoch=epoch)


def test_registered_trainer_keeps_its_epoch_against_a_new_one(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, steps=9)
    with a_run(launch) as run:
        epoch = register(run, Role.TRAINER).epoch
        register(run, Role.ROLLOUT)
        generate(run, now=1.0)
        train(run, now=2.0)

    with a_run(launch, now=3.0) as again:
        # It has not heard of its last commit, and says the version before.
        assert register(again, Role.TRAINER, now=3.0) == Registration(epoch=epoch, version=1)
        assert register(again, Role.TRAINER, now=4.0, instance="second").epoch == epoch + 1


def test_trainer_that_had_finished_finds_the_run_finished(tmp_path: Path) -> None:
    with a_run(a_launch(tmp_path, steps=3)) as run:
        register(run, Role.TRAINER, version=3)

        assert run.ending
        assert run.ending.succeeded


def test_run_that_ended_stays_ended(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, startup_deadline_seconds=1.0)
    with a_run(launch) as run:
        run.tick(now=2.0)
        ending = run.ending

    with a_run(launch, now=3.0) as again:
        assert again.ending == ending


def test_unwritable_journal_fails_the_run(tmp_path: Path) -> None:
    with a_run(a_launch(tmp_path)) as run:
        register(run, Role.TRAINER)
        register(run, Role.ROLLOUT)
        # A device that is always full takes the disk's place for a moment.
        disk, run.journal = run.journal, RunJournal(Path("/dev/full"))

        with pytest.raises(OSError, match="No space left"):
            generate(run, now=1.0)

        assert run.journal.failure
        with pytest.raises(OSError, match="No space left"):
            run.journal.close()
        run.journal = disk


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


def test_journal_with_an_impossible_token_is_replayed_without_it(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    with a_run(launch) as run:
        register(run, Role.TRAINER)
        register(run, Role.ROLLOUT)
        generate(run, now=1.0)
        assert run.batch(now=1.0)

    # The contract of this release knows the vocabulary: of three tokens, 0 to 2, one is beyond it.
    with a_run(replace(launch, vocab_size=2), now=2.0) as again:
        assert not again.batch(now=2.0)
        assert not again.state.num_buffered


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


def fail(run: Run, identity: TrajectoryId, **reasons: str) -> Outcome:
    failed = FailedTrajectory(
        group=identity.group,
        member=identity.member,
        epoch=run.state.epoch,
        process=WORKER,
        error="the prompt has 548 tokens, data.maxPromptTokens is 64",
        **reasons,
    )
    (receipt,) = run.deliver([codec.encode_trajectory(failed)], now=1.0)
    return codec.decode_receipt(receipt)[1]


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


def a_finished_run(run: Run) -> None:
    register(run, Role.TRAINER)
    register(run, Role.ROLLOUT)
    while run.state.version < run.launch.training.steps:
        generate(run, now=1.0)
        train(run, now=1.0)


def test_run_waits_for_the_trainers_end_after_the_last_version(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, steps=2)
    with a_run(launch) as run:
        a_finished_run(run)
        assert run.ending is None
        assert run.lease(WORKER, worker_version=2, max_trajectories=1, now=2.0) == ()
        # The last checkpoint takes long; no worker generates meanwhile, and that is no failure.
        be_alive(run, now=99.0)
        run.tick(now=99.0)
        assert run.ending is None

        done = Ending(reason=ALL_STEPS_DONE, message="2 steps are done")
        run.commit(2, consumed=[], discarded=[], report=StepReport(), ending=done, now=99.0)

        assert run.ending == done


def test_trainer_that_dies_before_its_last_checkpoint_repeats_the_rest(
    tmp_path: Path,
) -> None:
    launch = a_launch(tmp_path, steps=2)
    with a_run(launch) as run:
        a_finished_run(run)

        register(run, Role.TRAINER, instance="second", version=1)

        assert run.ending is None
        assert run.state.version == 1
        assert generate(run, now=2.0)
        train(run, now=2.0)
        assert run.state.version == 2


def step_records(launch: Launch) -> list[dict[str, Any]]:
    text = (Path(launch.state_path) / "steps.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_step_missing_from_the_records_is_recorded_at_next_start(
    tmp_path: Path,
) -> None:
    launch = a_launch(tmp_path, steps=9)
    with a_run(launch) as run:
        register(run, Role.TRAINER)
        register(run, Role.ROLLOUT)
        for _ in range(2):
            generate(run, now=1.0)
            train(run, now=1.0)
    file = Path(launch.state_path) / "steps.jsonl"
    before = step_records(launch)
    # It died between journal and record, in the middle of a line.
    file.write_text(file.read_text().splitlines(keepends=True)[0] + '{"step": 2, "ver')

    with a_run(launch):
        pass

    after = step_records(launch)
    assert [each["version"] for each in after] == [1, 2]
    for name in ("epoch", "consumed", "staleness", "reward_mean", "metrics"):
        assert after[1][name] == before[1][name]
    with a_run(launch):
        pass
    assert len(step_records(launch)) == 2
