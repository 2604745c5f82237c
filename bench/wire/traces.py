"""Cost of tracing in the coordinator: `python -m bench.wire.traces`.

A run without sockets, from lease to commit, as fast as it goes; its journal is on a real disk, and
a collector in a process of its own takes the spans. Ways are turned about, so that what else the
machine does meets all of them; of each the best turn counts.
"""

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from prometheus_client import CollectorRegistry

from bench.wire.load import trajectory_body
from bench.wire.stage import launch_in
from hetrl_core.job.spec import TracesSpec
from hetrl_core.launch import Launch
from hetrl_core.task import Role
from hetrl_runtime.coordinator.rules.members import Member
from hetrl_runtime.coordinator.rules.prompts import Prompts
from hetrl_runtime.coordinator.run import Run
from hetrl_runtime.data.open_prompts import open_prompts
from hetrl_runtime.data.prompt import Unusable
from hetrl_runtime.metrics.coordinator import CoordinatorMetrics
from hetrl_runtime.tracing.tracer import tracer_of
from hetrl_runtime.wire import hetrl_pb2 as pb
from hetrl_runtime.wire.values import PromptLease, ResumePoint, StepReport

WORKER = "rollout-0"
RATIOS = (None, 0.01, 1.0)
_WARM_UP_VERSIONS = 2


def main() -> None:
    """Measure, turn by turn, and print the best of each way."""
    parser = argparse.ArgumentParser(prog="python -m bench.wire.traces", description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--trajectories", type=int, default=8192, help="a turn")
    arguments = parser.parse_args()
    best: dict[float | None, tuple[float, float]] = {}
    with _collector() as endpoint:
        for _ in range(arguments.turns):
            for ratio in RATIOS:
                loop, whole = _measured(ratio, endpoint, arguments.trajectories)
                before = best.get(ratio, (loop, whole))
                best[ratio] = min(loop, before[0]), min(whole, before[1])
    for ratio, (loop, whole) in best.items():
        name = "off" if ratio is None else f"ratio {ratio:g}"
        print(
            f"{name:12} {loop:7.2f} us a trajectory in the loop, {whole:7.2f} us with all threads"
        )


def _measured(ratio: float | None, endpoint: str, number: int) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="hetrl-traces-") as folder:
        launch = launch_in(Path(folder))
        if ratio is not None:
            launch = replace(launch, traces=TracesSpec(endpoint=endpoint, sample_ratio=ratio))
        with _a_run(launch) as run:
            batch = launch.algorithm.global_batch_size
            for _ in range(_WARM_UP_VERSIONS):
                _version(run)
            loop, whole = time.thread_time(), time.process_time()
            versions = max(1, number // batch)
            for _ in range(versions):
                _version(run)
            done = versions * batch
            loop = time.thread_time() - loop
        # Closed: all that was in the queue is sent, as far as the deadline allows.
        whole = time.process_time() - whole
    return 1e6 * loop / done, 1e6 * whole / done


@contextlib.contextmanager
def _a_run(launch: Launch) -> Iterator[Run]:
    prompts = open_prompts(launch.data.prompts)
    assert not isinstance(prompts, Unusable)
    with (
        contextlib.closing(prompts),
        tracer_of(launch, process="coordinator-0") as tracer,
        contextlib.closing(
            Run(
                launch,
                Prompts(prompts, seed=1),
                CoordinatorMetrics(CollectorRegistry()),
                first_epoch=1,
                now=time.monotonic(),
                tracer=tracer,
            )
        ) as run,
    ):
        for role, process in ((Role.TRAINER, "trainer-0"), (Role.ROLLOUT, WORKER)):
            member = Member(
                process=process,
                role=role,
                pod_set="set",
                instance="first",
                seen_at=time.monotonic(),
            )
            resume = ResumePoint() if role is Role.TRAINER else None
            run.register(member, resume=resume, now=time.monotonic())
        yield run


def _version(run: Run) -> None:
    """Lease and accept until a batch is full, and commit it."""
    version = run.state.version
    body = trajectory_body(version)
    while not (batch := run.batch(now=time.monotonic())):
        leases = run.lease(
            WORKER, worker_version=version, max_trajectories=16, now=time.monotonic()
        )
        assert isinstance(leases, tuple)
        for lease in leases:
            run.deliver(_messages(lease, body), now=time.monotonic())
        run.journal.write_deliveries()
    run.commit(
        version + 1,
        consumed=[each.id for each in batch],
        discarded=(),
        report=StepReport(),
        ending=None,
        now=time.monotonic(),
    )
    run.journal.force()


def _messages(lease: PromptLease, body: bytes) -> list[bytes]:
    return [
        body
        + pb.Trajectory(
            group=each.group, member=each.member, epoch=lease.epoch, process=WORKER
        ).SerializeToString()
        for each in lease.ids
    ]


@contextlib.contextmanager
def _collector() -> Iterator[str]:
    """Run a collector that drops all spans, in a process of its own."""
    served = subprocess.Popen(
        [sys.executable, "-m", "bench.wire.traces", "collect"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert served.stdout
        yield f"http://127.0.0.1:{int(served.stdout.readline())}"
    finally:
        served.kill()
        served.communicate()


class _Sink(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Read it all, and say that it was good."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def _collect() -> None:
    server = HTTPServer(("127.0.0.1", 0), _Sink)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _collect() if sys.argv[1:] == ["collect"] else main()
