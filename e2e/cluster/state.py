"""Which clusters exist on this machine: one folder each, in the cache, with slot, owner and nodes.

A folder outlives the process that made it, so `down` works from anywhere and a crashed cluster is
found and swept away by the next `up`. Starting and stopping parts is left to `cluster`.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from e2e.cluster.addresses import Slot, free_slot
from e2e.cluster.cache import cache_root, exclusive
from e2e.cluster.errors import ClusterError
from e2e.cluster.processes import ProcessTable, Recorded, current_process

STATE_FILE = "state.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """What is written down about one cluster."""

    name: str
    slot_number: int
    nodes: tuple[str, ...]
    """Kinds of the real nodes, in the order of their addresses."""
    owner: Recorded | None
    """The process whose end ends the cluster; None once it is meant to outlive its starter."""

    @property
    def folder(self) -> Path:
        return _clusters() / self.name

    @property
    def slot(self) -> Slot:
        return Slot(number=self.slot_number)

    @property
    def processes(self) -> ProcessTable:
        return ProcessTable(folder=self.folder)

    @property
    def is_abandoned(self) -> bool:
        """Return whether it has no owner left: the owner died, or the machine restarted."""
        if self.owner is not None:
            return not self.owner.is_running
        return not any(process.is_running for process in self.processes.recorded())

    def detached(self) -> ClusterState:
        """Let the cluster outlive the process that started it."""
        state = replace(self, owner=None)
        _write(state)
        return state


def claim(name: str, *, nodes: tuple[str, ...]) -> ClusterState:
    """Take the name and a free slot for this process."""
    if not name.replace("-", "").isalnum() or len(name) > 40:
        raise ClusterError(f"a cluster's name is letters, digits and '-', at most 40: {name!r}")
    with exclusive("clusters"):
        existing = clusters()
        if any(state.name == name for state in existing):
            raise ClusterError(f"cluster {name!r} is running: use it, or end it with `down`")
        slot = free_slot({state.slot_number for state in existing})
        owner = current_process(f"starter of {name}")
        state = ClusterState(name=name, slot_number=slot.number, nodes=nodes, owner=owner)
        state.folder.mkdir(parents=True)
        _write(state)
    return state


def clusters() -> list[ClusterState]:
    """Return every cluster that is written down, running or not."""
    states = (_read(path) for path in sorted(_clusters().glob(f"*/{STATE_FILE}")))
    return [state for state in states if state is not None]


def find(name: str) -> ClusterState | None:
    return next((state for state in clusters() if state.name == name), None)


def _clusters() -> Path:
    return cache_root() / "clusters"


def forget(state: ClusterState) -> None:
    """Delete the cluster's folder, its state last: an interrupted end can be taken up again."""
    for path in state.folder.iterdir():
        if path.name == STATE_FILE:
            continue
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(state.folder)


def _read(path: Path) -> ClusterState | None:
    try:
        fields = json.loads(path.read_text())
    except FileNotFoundError:
        return None  # Its cluster ended while we looked.
    owner = fields.pop("owner")
    fields["nodes"] = tuple(fields["nodes"])
    return ClusterState(owner=Recorded(**owner) if owner else None, **fields)


def _write(state: ClusterState) -> None:
    path = state.folder / STATE_FILE
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(asdict(state), indent=1))
    partial.rename(path)
