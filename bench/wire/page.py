"""docs/results/wire.md, from what the benches left in a folder."""

# ruff: noqa: RUF001  # of times and at least

import json
import os
import platform
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

_PACKAGES = ("grpcio", "protobuf", "uvloop", "numpy", "pyarrow", "google-crc32c")
_MEBIBYTE = 1 << 20
_WANTED_PER_SECOND = 5000
_WANTED_P99_SECONDS = 0.050
_WANTED_RATIO = 0.8
_FLAT = 1.1
"""Memory at the end over that after the first fifth: what counts as flat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """What the machine's cores have done by a moment."""

    at: float
    busy_seconds: float

    @classmethod
    def now(cls) -> Self:
        """Read it."""
        fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
        idle = int(fields[3]) + int(fields[4])
        ticks = sum(map(int, fields[:8])) - idle
        return cls(at=time.monotonic(), busy_seconds=ticks / os.sysconf("SC_CLK_TCK"))

    def cores_since(self, before: Self) -> float:
        """Return how many cores were busy on average."""
        return (self.busy_seconds - before.busy_seconds) / (self.at - before.at)


def page(folder: Path) -> str:
    """Return the page; what is not measured yet says so."""
    found = {file.stem: json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))}
    return "\n".join(_page(found)) + "\n"


_HEAD = """\
# What crosses the wire, and how fast

`make proof-wire`: real processes over loopback, mutual TLS with certificates as the operator issues
them; what is measured has one core, what calls it another, of {cores}. {python}; {packages}.
The machine was not idle: what else ran took a share of the same cores, which slows both sides, so
rates stand by the clock and by the second of processor time, and every ratio is taken within one
run, in turns.
"""
_TRAJECTORIES = """\
## Trajectories into the coordinator

The coordinator's own process, and 64 workers and a trainer from one process of
`bench/wire/load.py`: each worker has a connection of its own, leases 64 at a time, sends every
trajectory (512 response and 64 prompt tokens, their log-probabilities, versions and text) in a
message of its own and waits for its receipt before the next. The coordinator decodes, checks,
enters it in the ledger, writes it to the journal, and hands batches of 1,024 to the trainer, which
commits each; heartbeats and announcements go as in a run. *Bare* is a grpc.aio stream of messages
of the same size over the same TLS and loop that are not decoded: the most that it could do.
"""
_MEMORY = """\
## Memory and journal

The same load, four trajectories on their way from each worker.
"""
_STREAM = """\
## Weights out of the trainer

{size:.0f} MiB in chunks of {chunk:.0f} MiB, the trainer's server and a worker's `fetch_weights`
against a bare grpc.aio server that yields the same chunks and a reader that drops them; the same
TLS, CRC32C for every chunk on both ends, freed memory kept by all as by the processes of a run.
Ours also keeps what comes, in order. By processor time a side's rate is that of its busier end.
"""
_READERS = """\
## One version to several workers

`spec.runtime.transport.weights`: each worker of the trainer's region fetches the version over
mutual TLS (`Grpc`), or the trainer broadcasts it to all of them at once (`Nccl`; between
processors, as here, by gloo, in the clear). The trainer has one core, all workers share the other,
so what a worker spends is paid as often as there are workers, which on machines of their own it is
not: there the trainer's side decides. Seconds until the last worker has all of it, checked.
"""
_ENGINE = """\
## All the way into an engine

From asking to the first token that new weights may sample: fetched over the wire, and loaded by the
`transformers` engine between two passes. Medians of three, bfloat16.
"""
_CHANGES = """\
## What a step changes

Between regions weights are sent as patches (docs/decisions/0060): exact to the bit, compressed.
After the third of three steps of the real learner, AdamW with float32 master weights, on random
responses. *Whole* is the patch that needs no base.
"""


def _page(found: dict[str, Any]) -> Iterator[str]:
    yield _HEAD.format(
        cores=os.cpu_count(), python=f"Python {platform.python_version()}", packages=_versions()
    )
    yield _TRAJECTORIES
    yield from _shown(found.get("trajectories"), _trajectories)
    yield _MEMORY
    yield from _shown(found.get("memory"), _memory)
    yield from _shown(found.get("stream"), _stream)
    yield _READERS
    yield from _shown(found.get("readers"), _readers)
    yield _ENGINE
    yield from _shown(found.get("engine"), _engine)
    yield _CHANGES
    yield from _shown(found.get("changes"), _changes)


def _shown(record: dict[str, Any] | None, show: Any) -> Iterator[str]:
    if record is None:
        yield "Not measured yet.\n"
        return
    yield from show(record["found"])
    yield ""
    yield f"Commit {record['commit']}; {record['busy_cores']:.1f} cores were busy meanwhile.\n"


def _versions() -> str:
    return ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _trajectories(found: dict[str, Any]) -> Iterator[str]:
    ours, bare = found["ours"], found["bare"]
    clock = [each["accepted"] / each["wall_seconds"] for each in ours]
    cpu = [each["accepted"] / each["coordinator_cpu_seconds"] for each in ours]
    share = [each["coordinator_cpu_seconds"] / each["wall_seconds"] for each in ours]
    p50, p99 = ([each[name] for each in ours] for name in ("p50_seconds", "p99_seconds"))
    yield "| | by the clock, /s | best turn | by processor time, /s | best turn |"
    yield "|---|---|---|---|---|"
    yield _rates("coordinator", clock, cpu)
    yield _rates(
        "bare", [each["per_second"] for each in bare], [each["per_cpu_second"] for each in bare]
    )
    ratios = [mine / each["per_cpu_second"] for mine, each in zip(cpu, bare, strict=True)]
    yield ""
    yield (
        f"Medians of {len(ours)} turns of {ours[0]['accepted']:,} trajectories of "
        f"{ours[0]['message_bytes']:,} bytes. The coordinator had {statistics.median(share):.0%} "
        f"of its core. Receipts: p50 {1000 * statistics.median(p50):.1f} ms, "
        f"p99 {1000 * statistics.median(p99):.1f} ms (best turn {1000 * min(p99):.1f}). By "
        f"processor time the coordinator does {statistics.median(ratios):.0%} of bare grpc.aio."
    )
    yield ""
    yield _verdict(
        f"≥ {_WANTED_PER_SECOND:,}/s by the clock", statistics.median(clock) >= _WANTED_PER_SECOND
    )
    yield _verdict(
        f"p99 ≤ {1000 * _WANTED_P99_SECONDS:.0f} ms", statistics.median(p99) <= _WANTED_P99_SECONDS
    )


def _memory(found: list[dict[str, Any]]) -> Iterator[str]:
    yield "| trajectories | resident, MiB | journal on disk, MiB |"
    yield "|---|---|---|"
    for each in found[:: max(1, len(found) // 10)]:
        yield (
            f"| {each['accepted']:,} | {each['resident_bytes'] / _MEBIBYTE:.0f} "
            f"| {each['journal_bytes'] / _MEBIBYTE:.0f} |"
        )
    fifth = max(1, len(found) // 5)
    first = statistics.median(each["resident_bytes"] for each in found[fifth : 2 * fifth])
    last = statistics.median(each["resident_bytes"] for each in found[-fifth:])
    most = max(each["journal_bytes"] for each in found) / _MEBIBYTE
    yield ""
    yield (
        f"The last fifth holds {last / first:.2f}× what the second did; "
        f"the journal, with the one in its place, never more than {most:.0f} MiB."
    )
    yield ""
    yield _verdict(f"memory flat (≤ {_FLAT}×)", last <= _FLAT * first)


def _stream(found: dict[str, Any]) -> Iterator[str]:
    yield _STREAM.format(size=found["bytes"] / _MEBIBYTE, chunk=found["chunk_bytes"] / _MEBIBYTE)
    readings = found["readings"]
    clock = {kind: [each["seconds"] for each in readings[kind]] for kind in readings}
    cpu = {
        kind: [max(each["server_cpu_seconds"], each["reader_cpu_seconds"]) for each in of_kind]
        for kind, of_kind in readings.items()
    }
    yield "| | MiB/s by the clock | MiB/s by processor time |"
    yield "|---|---|---|"
    for kind, label in (("ours", "weight stream"), ("bare", "bare")):
        rates = [
            found["bytes"] / _MEBIBYTE / statistics.median(each[kind]) for each in (clock, cpu)
        ]
        yield f"| {label} | {rates[0]:,.0f} | {rates[1]:,.0f} |"
    by_clock, by_cpu = (_ratios(side["ours"], side["bare"]) for side in (clock, cpu))
    yield ""
    yield (
        f"{len(clock['ours'])} readings of each, in turns, rates their medians. Of pairs, ours has "
        f"by the clock {by_clock[1]:.0%} of bare's rate (half of the pairs between "
        f"{by_clock[0]:.0%} and {by_clock[2]:.0%}), by processor time {by_cpu[1]:.0%} "
        f"({by_cpu[0]:.0%} to {by_cpu[2]:.0%})."
    )
    yield ""
    yield _verdict(f"≥ {_WANTED_RATIO:.0%} by the clock", by_clock[1] >= _WANTED_RATIO)
    yield _verdict(f"≥ {_WANTED_RATIO:.0%} by processor time", by_cpu[1] >= _WANTED_RATIO)


def _ratios(ours: list[float], bare: list[float]) -> list[float]:
    """Return the quartiles of the pairs' ratios of rates."""
    pairs = [b / o for o, b in zip(ours, bare, strict=True)]
    return statistics.quantiles(pairs, n=4, method="inclusive")


def _readers(found: dict[str, Any]) -> Iterator[str]:
    yield f"{found['bytes'] / _MEBIBYTE:.0f} MiB a version; medians of turns."
    yield ""
    yield "| workers | way | until all have it, s | trainer, CPU s | a worker, CPU s |"
    yield "|---|---|---|---|---|"
    for row in found["rows"]:
        shown = [
            statistics.median(each[name] for each in row["turns"])
            for name in ("seconds", "trainer_cpu_seconds", "worker_cpu_seconds")
        ]
        figures = " | ".join(f"{each:.2f}" for each in shown)
        yield f"| {row['readers']} | {row['way']} | {figures} |"


def _engine(found: dict[str, Any]) -> Iterator[str]:
    yield "| model | MiB | fetched, s | loaded, s | in all, s |"
    yield "|---|---|---|---|---|"
    for name, each in found.items():
        seconds = each["seconds"]
        parts = [seconds[part] for part in ("fetch", "load")]
        shown = " | ".join(f"{part:.3f}" for part in (*parts, sum(parts)))
        yield f"| {name} | {each['bytes'] / _MEBIBYTE:.1f} | {shown} |"


def _changes(found: list[dict[str, Any]]) -> Iterator[str]:
    yield (
        "| model | numbers | learning rate | MiB | patch | whole | made, CPU s | applied, CPU s |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for each in found:
        yield (
            f"| {each['model']} | {each['dtype']} | {each['learning_rate']:g} "
            f"| {each['bytes'] / _MEBIBYTE:.1f} | {each['delta_bytes'] / each['bytes']:.1%} "
            f"| {each['whole_bytes'] / each['bytes']:.1%} | {each['make_cpu_seconds']:.2f} "
            f"| {each['apply_cpu_seconds']:.2f} |"
        )


def _rates(name: str, clock: list[float], cpu: list[float]) -> str:
    sides = (f"{_median(each)} | {max(each):,.0f}" for each in (clock, cpu))
    return f"| {name} | {' | '.join(sides)} |"


def _median(values: list[float]) -> str:
    return f"{statistics.median(values):,.0f}"


def _verdict(wanted: str, holds: bool) -> str:
    return f"- {wanted}: {'holds' if holds else '**does not hold**'}"
