"""A run and the data that its history is of, on the journal's and the trainer's word."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from hetrl_core.job.identity import UNKNOWN, Aspect, Value
from hetrl_core.job.spec import TrainingSpec
from hetrl_core.launch import Launch
from hetrl_core.task import Role
from hetrl_ownership.owned_folder import InUseError, OwnedFolder
from hetrl_runtime.coordinator.journal.journal import read
from hetrl_runtime.coordinator.rules.data_changes import DataChangedError
from hetrl_runtime.coordinator.rules.members import Member
from hetrl_runtime.coordinator.rules.prompts import Prompts
from hetrl_runtime.coordinator.run import Run
from hetrl_runtime.coordinator.server import serve
from hetrl_runtime.data.open_prompts import open_prompts
from hetrl_runtime.data.prompt import Unusable
from hetrl_runtime.metrics.coordinator import CoordinatorMetrics
from hetrl_runtime.transport.clients.coordinator_client import TrainerClient
from hetrl_runtime.transport.errors import Refused
from hetrl_runtime.wire.values import ALL_STEPS_DONE, Ending, Registration, ResumePoint
from tests.runtime.coordinators import a_coordinator
from tests.runtime.launches import a_launch

FIRST = Value(name="train.jsonl", digest="a" * 64)
EDITED = Value(name="train.jsonl", digest="b" * 64)
SAID = r"spec\.data\.prompts has changed: recorded train\.jsonl .*, now train\.jsonl"


@contextlib.contextmanager
def a_run(launch: Launch, data: Value) -> Iterator[Run]:
    prompts = open_prompts(launch.data.prompts)
    assert not isinstance(prompts, Unusable)
    metrics = CoordinatorMetrics(CollectorRegistry())
    with contextlib.closing(prompts):
        run = Run(launch, Prompts(prompts, seed=1), metrics, first_epoch=1, now=0.0, data=data)
        with contextlib.closing(run):
            yield run


def register(
    run: Run, *, data: Value = UNKNOWN, instance: str = "first", version: int = 0
) -> Registration:
    member = Member(
        process="trainer-0", role=Role.TRAINER, pod_set="set", instance=instance, seen_at=0.0
    )
    return run.register(member, resume=ResumePoint(version=version), data=data, now=0.0)


def allowing(launch: Launch, *aspects: Aspect) -> Launch:
    return replace(launch, training=replace(launch.training, allowed_changes=aspects))


def recorded(launch: Launch) -> Value:
    (begun,) = [
        entry.epoch_begun
        for entry in read(Path(launch.state_path) / f"journal-{launch.job.uid}")
        if entry.WhichOneof("entry") == "epoch_begun"
    ]
    return Value(name=begun.data.name, digest=begun.data.digest)


def test_journal_of_other_data_is_refused(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    with a_run(launch, FIRST) as run:
        register(run)

    with pytest.raises(DataChangedError, match=SAID), a_run(launch, EDITED):
        pass
    with pytest.raises(DataChangedError), a_run(allowing(launch, Aspect.MODEL), EDITED):
        pass
    with a_run(launch, FIRST) as run:
        assert run.ending is None


def test_allowed_data_become_those_of_the_journal(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    with a_run(launch, FIRST) as run:
        register(run)

    with a_run(allowing(launch, Aspect.DATA), EDITED):
        assert recorded(launch) == EDITED

    with a_run(launch, EDITED) as run:
        assert run.ending is None


def test_journal_of_an_earlier_release_gets_data(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    with a_run(launch, UNKNOWN) as run:
        register(run)
    assert recorded(launch) == UNKNOWN

    with a_run(launch, FIRST):
        assert recorded(launch) == FIRST


def test_trainer_of_other_data_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    with a_run(launch, FIRST) as run:
        register(run)
        epoch = run.state.epoch

        with pytest.raises(DataChangedError, match=SAID):
            register(run, data=EDITED, instance="second", version=2)

        assert (run.state.epoch, run.state.version, run.ending) == (epoch, 0, None)
        assert register(run, data=FIRST, instance="third", version=2).data == FIRST


def test_trainer_without_data_continues(tmp_path: Path) -> None:
    with a_run(a_launch(tmp_path), FIRST) as run:
        assert register(run, data=UNKNOWN, version=2).version == 2


def finished(launch: Launch) -> None:
    with a_run(launch, FIRST) as run:
        register(run, version=launch.training.steps)
        assert run.ending is not None


def test_finished_run_goes_on_where_the_job_has_more_steps(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, steps=3)
    finished(launch)
    longer = replace(launch, training=TrainingSpec(steps=5))

    with a_run(longer, FIRST) as run:
        assert run.ending is None
        assert register(run, data=FIRST, instance="second", version=3).version == 3
        assert run.ending is None

    with a_run(launch, FIRST) as run:
        register(run, data=FIRST, instance="third", version=3)
        assert run.ending == Ending(
            reason=ALL_STEPS_DONE,
            message="3 steps were done before, by the run that this one continues",
        )


def test_failed_run_stays_failed_with_more_steps(tmp_path: Path) -> None:
    launch = a_launch(tmp_path, steps=3)
    with a_run(launch, FIRST) as run:
        register(run)
        run.end(Ending(reason="NoLearningSignal", message="nothing to learn"))

    with a_run(replace(launch, training=TrainingSpec(steps=5)), FIRST) as run:
        assert run.ending is not None


async def test_coordinator_ends_where_data_have_changed(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    async with a_coordinator(launch):
        await asyncio.to_thread(register_over_sockets, launch)
    prompts = Path(launch.data.prompts)
    before = prompts.read_text()
    prompts.write_text(before.replace("#### 3", "#### 4"))

    ending = await serve(launch, stop=asyncio.Event())

    assert ending is not None
    assert ending.reason == "DataChanged"
    assert f"spec.data.prompts has changed: recorded {prompts} (sha256 " in ending.message
    result = json.loads((tmp_path / "state" / "result.json").read_text())
    assert (result["outcome"], result["reason"]) == ("Failed", "DataChanged")
    # The end is not in the journal: the run goes on once the data are back, or allowed.
    prompts.write_text(before)
    async with a_coordinator(launch):
        await asyncio.to_thread(register_over_sockets, launch)


async def test_coordinator_refuses_a_checkpoint_of_other_data(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    async with a_coordinator(launch):
        with pytest.raises(Refused, match=r"checkpoint is of other data: spec\.data\.prompts"):
            await asyncio.to_thread(register_over_sockets, launch, FIRST)

    async with a_coordinator(allowing(launch, Aspect.DATA)):
        given = await asyncio.to_thread(register_over_sockets, launch, FIRST)
    assert given.name == launch.data.prompts


def register_over_sockets(launch: Launch, data: Value | None = None) -> Value:
    with TrainerClient(launch, process="trainer-0") as client:
        client.register(ResumePoint(), data=data)
        return client.data


async def test_coordinator_does_not_share_its_state(tmp_path: Path) -> None:
    launch = a_launch(tmp_path)
    other = OwnedFolder.take(Path(launch.state_path), run="another-run")

    with pytest.raises(InUseError, match=rf"^{launch.state_path} is in use by process"):
        await serve(launch, stop=asyncio.Event())

    other.close()
