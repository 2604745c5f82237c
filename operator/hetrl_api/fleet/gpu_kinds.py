"""GPU kinds: the catalogue's figures, overridden by those of topologies."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from hetrl_api.conversion import shared_fields
from hetrl_api.fleet.topology import GpuKindEntry, HetRLTopology
from hetrl_api.validation.errors import InvalidObjectError
from hetrl_core.fleet.catalogue import catalogued
from hetrl_core.fleet.products import NotEligible, kind_of_product
from hetrl_core.fleet.snapshot import GpuKind
from hetrl_core.units import GIB, GIGA, TERA


class KnownKinds:
    """GPU kinds as the topologies and the catalogue together know them."""

    def __init__(self, topologies: Sequence[HetRLTopology]) -> None:
        self._entries = {
            entry.name: entry for topology in topologies for entry in topology.spec.gpu_kinds
        }
        self._by_product = {
            plain(product): entry.name
            for entry in self._entries.values()
            for product in (*entry.products, entry.name)
        }
        self._used: dict[str, GpuKind] = {}

    def of_product(self, product: str) -> GpuKind | NotEligible:
        """Return the kind behind a node's product label, or why there is none."""
        name = self.name_of(product)
        if isinstance(name, NotEligible):
            return name
        if name not in self._used:
            self._used[name] = self._merged(name)
        return self._used[name]

    def name_of(self, product: str) -> str | NotEligible:
        """Return the name of that kind, which need not be in use."""
        return self._by_product.get(plain(product)) or catalogue_name(product)

    def figures(self, name: str) -> GpuKind:
        """Return a kind that need not be in use, by its own name."""
        return self._used.get(name) or self._merged(name)

    def named(self, name: str, *, number: int) -> GpuKind:
        """Return the kind that a pool names."""
        kind = self.of_product(name)
        if isinstance(kind, NotEligible):
            raise InvalidObjectError([f"spec.pools[{number}].gpuKind: {kind.reason}"])
        return kind

    def used(self) -> tuple[GpuKind, ...]:
        """Return the kinds that some machine has, by name."""
        return tuple(kind for _, kind in sorted(self._used.items()))

    def _merged(self, name: str) -> GpuKind:
        entry = self._entries.get(name)
        given = {"name": name, **(_figures(entry) if entry else {})}
        base = catalogued(name)
        if base is not None:
            return replace(base, **given)
        missing = [field for key, field in _REQUIRED.items() if key not in given]
        if missing:
            raise InvalidObjectError(
                [
                    f"spec.gpuKinds: {name!r} is not in the catalogue, so it also needs "
                    + ", ".join(missing)
                ]
            )
        return GpuKind(**given)


@lru_cache(maxsize=1024)
def catalogue_name(product: str) -> str | NotEligible:
    """Return the catalogue's name of a kind or product label, or why it has none."""
    kind = catalogued(product) or kind_of_product(product)
    return kind if isinstance(kind, NotEligible) else kind.name


@lru_cache(maxsize=1024)
def plain(product: str) -> str:
    """Make labels of older and newer drivers comparable: both call it ``a100-sxm4-40gb``."""
    return re.sub(r"^nvidia-", "", product.lower().replace(" ", "-"))


_REQUIRED = {
    "memory_bytes": "memoryGiB",
    "bf16_flops": "peakTeraflops.bf16",
    "hbm_bytes_per_second": "hbmGigabytesPerSecond",
    "intra_node_bytes_per_second": "intraNodeGigabytesPerSecond",
    "dollars_per_hour": "dollarsPerHour",
}


def _figures(entry: GpuKindEntry) -> dict[str, Any]:
    """Return what an entry says, in the units and under the names of ``GpuKind``."""
    unit_of = {
        "memory_bytes": (entry.memory_gib, GIB),
        "bf16_flops": (entry.peak_teraflops.bf16, TERA),
        "hbm_bytes_per_second": (entry.hbm_gigabytes_per_second, GIGA),
        "intra_node_bytes_per_second": (entry.intra_node_gigabytes_per_second, GIGA),
        "fp8_flops": (entry.peak_teraflops.fp8, TERA),
    }
    # Bytes are whole numbers, as their unit is; rates are not.
    converted = {
        name: type(unit)(value * unit)
        for name, (value, unit) in unit_of.items()
        if value is not None
    }
    return {**shared_fields(GpuKind, entry), **converted}
