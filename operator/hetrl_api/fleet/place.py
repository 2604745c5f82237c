"""Machines that a job may choose from, and those that are left out, each with its reason.

What makes a node fit is ``fleet``'s and its callers' to say.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hetrl_api.fleet.gpu_kinds import catalogue_name, plain
from hetrl_core.fleet.snapshot import GpuKind, Machine
from hetrl_core.job.spec import PoolSpec

PRODUCT_LABEL = "nvidia.com/gpu.product"

_MAX_NAMES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A machine, and the labels by which a job may choose it."""

    machine: Machine
    labels: Mapping[str, str]

    def is_in(self, pool: PoolSpec) -> bool:
        """Tell whether a job's pool takes this machine."""
        return _takes(pool, gpu_kind=self.machine.gpu_kind, labels=self.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A node that is made for GPU work and cannot be used now."""

    node: str
    gpu_kind: str
    """Empty where the product is of no known kind."""

    labels: Mapping[str, str]
    reason: str
    """Completes "left out: ", such as ``cordoned``."""

    machine: Machine | None = None
    """What it is to jobs that are there already; None without GPUs of a known kind."""

    kind: GpuKind | None = None
    """Of the machine."""

    def is_in(self, pool: PoolSpec) -> bool:
        """Tell whether a job's pool would take this node."""
        return _takes(pool, gpu_kind=self.gpu_kind, labels=self.labels)


def summary(absences: Iterable[Absence]) -> tuple[str, ...]:
    """Return one line for each reason: how many nodes, and the first few of their names."""
    nodes: dict[str, list[str]] = {}
    for each in absences:
        nodes.setdefault(each.reason, []).append(each.node)
    return tuple(_line(reason, sorted(names)) for reason, names in sorted(nodes.items()))


def _line(reason: str, names: list[str]) -> str:
    count = f"{len(names)} node{'' if len(names) == 1 else 's'}"
    shown = ", ".join(names[:_MAX_NAMES])
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"{count} left out ({shown}{more}): {reason}"


def _takes(pool: PoolSpec, *, gpu_kind: str, labels: Mapping[str, str]) -> bool:
    asked = pool.gpu_product
    own = {plain(gpu_kind), plain(labels.get(PRODUCT_LABEL, ""))}
    has_product = not asked or plain(asked) in own or catalogue_name(asked) == gpu_kind
    return has_product and all(labels.get(key) == value for key, value in pool.node_selector)
