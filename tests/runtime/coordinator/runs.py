"""Runs of a coordinator without sockets, and what workers and trainers do in them."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry

from hetrl_core.launch import Launch
from hetrl_core.task import Role
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
    Outcome,
    ProcessStatus,
    Registration,
    ResumePoint,
    StepReport,
)
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


def a_member(process: str, role: Role, *, now: float, **more: Any) -> Member:
    return Member(process=process, role=role, pod_set="set", instance="one", seen_at=now, **more)


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


def a_finished_run(run: Run) -> None:
    register(run, Role.TRAINER)
    register(run, Role.ROLLOUT)
    while run.state.version < run.launch.training.steps:
        generate(run, now=1.0)
        train(run, now=1.0)
