"""A run's coordinator without sockets, on a clock of the test's own."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hetrl_core.job.spec import DataSpec, ModelFiles, TrainingSpec
from hetrl_core.launch import Launch
from hetrl_core.task import Role, Task
from hetrl_runtime.wire.values import (
    ALL_STEPS_DONE,
    Ending,
    InferenceEndpoint,
    ProcessStatus,
    Registration,
    ResumePoint,
    StepReport,
)
from tests.runtime.coordinator.runs import (
    WORKER,
    a_finished_run,
    a_member,
    a_run,
    be_alive,
    generate,
    register,
    train,
)
from tests.runtime.launches import a_launch, a_prompt_file


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
        file = run.journal._file.fileno()
        disk = os.dup(file)
        with Path("/dev/full").open("ab") as full:
            os.dup2(full.fileno(), file)

        with pytest.raises(OSError, match="No space left"):
            generate(run, now=1.0)

        assert run.journal.failure
        with pytest.raises(OSError, match="No space left"):
            run.journal.force()
        os.dup2(disk, file)
        os.close(disk)
        run.journal.failure = None


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
