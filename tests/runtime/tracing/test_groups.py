"""The way of groups as the coordinator's own spans tell it, on a clock of the test's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hetrl_core.job.spec import TracesSpec
from hetrl_core.task import Role
from hetrl_runtime.coordinator.run import LEASE_SECONDS, Run
from hetrl_runtime.tracing.groups import is_traced
from hetrl_runtime.tracing.tracer import tracer_of
from hetrl_runtime.wire import codec
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.trajectory import FailedTrajectory, SampledTrajectory
from hetrl_runtime.wire.values import PromptLease, StepReport
from tests.runtime.coordinator.runs import WORKER, a_run, register
from tests.runtime.launches import a_launch
from tests.runtime.tracing.collector import Collector, Seen, a_collector
from tests.runtime.trajectories import a_trajectory

STEP = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclass
class Traced:
    """A run with a trainer and a worker, whose groups have two members and batches two groups."""

    run: Run
    collector: Collector

    def lease(self, number: int, *, now: float) -> tuple[PromptLease, ...]:
        leases = self.run.lease(
            WORKER, worker_version=self.run.state.version, max_trajectories=number, now=now
        )
        assert isinstance(leases, tuple)
        return leases

    def deliver(self, leases: tuple[PromptLease, ...], *, now: float) -> None:
        for lease in leases:
            for identity in lease.ids:
                made = a_trajectory(
                    *identity,
                    versions=(self.run.state.version,),
                    epoch=lease.epoch,
                    process=WORKER,
                    reward=0.5,
                )
                self.run.deliver([codec.encode_trajectory(made)], now=now)

    def commit(self, *, now: float) -> None:
        ids = [each.id for each in self.run.batch(now=now)]
        assert ids
        self.run.commit(
            self.run.state.version + 1,
            consumed=ids,
            discarded=(),
            report=StepReport(),
            ending=None,
            now=now,
            traceparent=STEP,
        )


@contextmanager
def a_traced_run(folder: Path, *, ratio: float = 1.0) -> Iterator[Traced]:
    """Run for as long as the block lasts; then all its spans have arrived."""
    with a_collector() as collector:
        launch = a_launch(
            folder,
            steps=9,
            max_staleness=1,
            traces=TracesSpec(endpoint=collector.endpoint, sample_ratio=ratio),
        )
        with (
            tracer_of(launch, process="coordinator-0") as tracer,
            a_run(launch, tracer=tracer) as run,
        ):
            register(run, Role.TRAINER)
            register(run, Role.ROLLOUT)
            yield Traced(run, collector)


def seconds(whole: Seen, part: Seen) -> tuple[float, float]:
    """When a part began and ended, counted from the whole's beginning."""
    began, ended = (moment - whole.start_ns for moment in (part.start_ns, part.end_ns))
    return round(began / 1e9, 3), round(ended / 1e9, 3)


def test_trajectory_is_leased_buffered_and_consumed_within_its_group(tmp_path: Path) -> None:
    with a_traced_run(tmp_path) as traced:
        leases = traced.lease(4, now=10.0)
        traced.deliver(leases[:1], now=11.0)
        traced.deliver(leases[1:], now=14.0)
        traced.run.batch(now=15.0)
        traced.commit(now=17.0)

    first, second = sorted(traced.collector.named("group"), key=lambda each: each.trace_id)
    assert first.trace_id != second.trace_id
    group = next(each for each in (first, second) if each.attributes["hetrl.group"] == 0)
    assert group.parent_id == ""
    assert group.attributes == {
        "hetrl.group": 0,
        "hetrl.group_size": 2,
        "hetrl.outcome": "consumed",
    }
    members = traced.collector.children(group)
    assert [each.attributes["hetrl.member"] for each in members] == [0, 1]
    for member in members:
        assert (
            member.attributes.items()
            >= {
                "hetrl.outcome": "consumed",
                "hetrl.version": 0,
                "hetrl.staleness": 0,
                "hetrl.reward": 0.5,
                "hetrl.rollout": WORKER,
            }.items()
        )
        parts = {each.name: seconds(group, each) for each in traced.collector.children(member)}
        assert parts == {"lease": (0, 0), "buffer": (1, 5), "consume": (5, 7)}
        assert {each.trace_id for each in traced.collector.children(member)} == {group.trace_id}
    assert all(each.links == (STEP.split("-")[2],) for each in traced.collector.named("consume"))


def test_span_covers_a_workers_wait_for_its_lease(tmp_path: Path) -> None:
    with a_traced_run(tmp_path) as traced:
        # Two batches are all that the bound admits.
        leases = traced.lease(8, now=10.0)
        assert traced.lease(1, now=12.0) == ()
        assert traced.lease(1, now=21.0) == ()
        traced.deliver(leases, now=22.0)
        traced.commit(now=24.0)
        assert traced.lease(1, now=25.0)

    late = [each for each in traced.collector.named("lease") if each.end_ns > each.start_ns]
    assert [each.attributes["hetrl.waited_seconds"] for each in late] == [13.0]
    assert seconds(late[0], late[0]) == (0, 13)


def test_old_request_did_not_wait_since(tmp_path: Path) -> None:
    with a_traced_run(tmp_path) as traced:
        leases = traced.lease(8, now=10.0)
        assert traced.lease(1, now=11.0) == ()
        traced.deliver(leases, now=12.0)
        traced.commit(now=13.0)
        assert traced.lease(1, now=60.0)

    waits = [each.attributes["hetrl.waited_seconds"] for each in traced.collector.named("lease")]
    assert set(waits) == {0.0}


def test_expired_lease_and_its_outcome_are_on_one_span(tmp_path: Path) -> None:
    with a_traced_run(tmp_path) as traced:
        (lease,) = traced.lease(2, now=0.0)
        traced.run.tick(now=LEASE_SECONDS + 1)
        (again,) = traced.lease(2, now=LEASE_SECONDS + 2)
        assert again.traceparents == lease.traceparents
        failed = FailedTrajectory(
            group=lease.group, member=0, epoch=lease.epoch, process=WORKER, error="too long"
        )
        traced.run.deliver([codec.encode_trajectory(failed)], now=LEASE_SECONDS + 3)

    (group,) = traced.collector.named("group")
    first, _ = traced.collector.children(group)
    assert first.events == ("lease expired", "delivery refused")
    assert [each.name for each in traced.collector.children(first)] == ["lease", "lease"]
    # The run ended before anything was trained on it.
    assert first.attributes["hetrl.outcome"] == group.attributes["hetrl.outcome"] == "unfinished"


def test_dropped_prompt_ends_its_trace(tmp_path: Path) -> None:
    with a_traced_run(tmp_path) as traced:
        for _ in range(3):
            (lease,) = traced.lease(1, now=0.0)
            failed = FailedTrajectory(
                group=lease.group,
                member=lease.members[0],
                epoch=lease.epoch,
                process=WORKER,
                error="too long",
            )
            traced.run.deliver([codec.encode_trajectory(failed)], now=0.0)

    (group,) = traced.collector.named("group")
    assert group.attributes["hetrl.outcome"] == "given up"


def test_members_of_a_group_are_traced_together_or_not(tmp_path: Path) -> None:
    ratio = 0.5
    with a_traced_run(tmp_path, ratio=ratio) as traced:
        given = {}
        for now in range(6):
            for _ in range(8):
                # One at a time: each is decided alone.
                leases = traced.lease(1, now=float(now))
                for lease in leases:
                    (member,) = lease.members
                    given[lease.group, member] = lease.traceparent_of(member)
                traced.deliver(leases, now=float(now))
            traced.commit(now=now + 0.5)

    for group in {group for group, _ in given}:
        names = {given[group, 0], given[group, 1]}
        if is_traced("0b1c", group, ratio=ratio):
            assert len(names - {""}) == 2
            assert len({name.split("-")[1] for name in names}) == 1
        else:
            assert names == {""}
    assert len({bool(name) for name in given.values()}) == 2


def test_run_without_traces_sends_nothing_more_over_the_wire(tmp_path: Path) -> None:
    with a_run(a_launch(tmp_path)) as run:
        register(run, Role.TRAINER)
        register(run, Role.ROLLOUT)
        leases = run.lease(WORKER, worker_version=0, max_trajectories=4, now=0.0)

    assert isinstance(leases, tuple)
    assert all(each.traceparents == () for each in leases)
    message = pb.Trajectory.FromString(codec.encode_trajectory(a_trajectory()))
    assert not message.traceparent


def test_context_travels_with_a_trajectory_and_older_peers_ignore_it() -> None:
    traced = codec.encode_trajectory(replace(a_trajectory(), traceparent=STEP))
    found = codec.decode_trajectory(traced)
    assert isinstance(found, SampledTrajectory)
    assert found.traceparent == STEP
    # One that knows no such field, and one that never had it.
    untraced = codec.decode_trajectory(codec.encode_trajectory(a_trajectory()))
    assert isinstance(untraced, SampledTrajectory)
    assert untraced.traceparent == ""
    assert codec.receive_trajectory(traced) == codec.receive_trajectory(
        codec.encode_trajectory(a_trajectory())
    )._replace(data=traced)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("traceparents", "expected"),
    [((), ""), ((STEP,), ""), ((STEP, "b"), "b")],
    ids=["an older coordinator", "too few", "one a member"],
)
def test_members_span_is_found_in_its_lease(traceparents: tuple[str, ...], expected: str) -> None:
    lease = PromptLease(
        epoch=1, group=3, members=(4, 6), question="", answer="", traceparents=traceparents
    )

    assert lease.traceparent_of(6) == expected
