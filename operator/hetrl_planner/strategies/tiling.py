"""Tiling of large fleets: the plan for one tile, copied to all of them.

A fleet of hundreds of machines has a few kinds many times over, and data parallelism copies a
tile's plan. So a tile is searched as thoroughly as a small fleet; later searches start from the
copies and find plans that are no copies.
"""

from dataclasses import dataclass, replace

from hetrl_planner.layout.devices import Devices
from hetrl_planner.layout.evaluation import Evaluation
from hetrl_planner.layout.layout import Layout, PipelineStage, ReplicaLayout, TaskLayout
from hetrl_planner.phase1.space import Space
from hetrl_planner.problem.fleet_size import MostGpus
from hetrl_planner.problem.sites import Site
from hetrl_planner.strategies.context import SearchContext
from hetrl_planner.strategies.search_result import SearchResult
from hetrl_planner.strategies.strategy import SearchStrategy

NEAR = range(-4, 9)
"""Numbers of copies that are tried, from the one that gives tiles of just that size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """A space cut into equal tiles."""

    tile: Space
    copies: int


def tiled(
    strategy: SearchStrategy, context: SearchContext, first: SearchResult | None
) -> SearchResult | None:
    """Return the better of a result and copies of a strategy's plan for one tile."""
    if not context.is_large or context.evaluations == 0 or context.should_stop():
        return first
    tiling = tiling_of(context.space)
    if tiling is None:
        return first
    found = strategy.plan(replace(context, space=tiling.tile, job=None))
    if found is None:
        return first
    layout = laid_out(found.evaluation.layout, tiling, context.space)
    evaluation = context.evaluator.evaluate(layout)
    if not isinstance(evaluation, Evaluation):
        return first
    if first is None:
        return replace(found, evaluation=evaluation, finalists=(), others=())
    score = context.objective.score
    is_better = score(evaluation) < score(first.evaluation)
    return replace(first, evaluation=evaluation) if is_better else first


def tiling_of(space: Space) -> Tiling | None:
    """Return a space's tiling, ``None`` if its job or machines cannot be divided.

    Of several numbers of copies, one that leaves fewest GPUs over; a batch must be divided into
    whole groups.
    """
    num_gpus = sum(site.num_gpus for site in space.sites)
    if space.limits.max_replicas is not None or space.limits.min_replicas > 1:
        return None
    about = round(num_gpus / MostGpus.WHOLE)
    tried = [
        (_left_over(space, copies), abs(copies - about), copies)
        for copies in (about + more for more in NEAR)
        if copies > 1 and not space.work.batch_size % (copies * space.work.group_size)
    ]
    if not tried:
        return None
    *_, copies = min(tried)
    tile = _tile(space, copies)
    return Tiling(tile=tile, copies=copies) if tile else None


def laid_out(layout: Layout, tiling: Tiling, space: Space) -> Layout:
    """Return a tile's layout on every copy of it."""
    devices = Devices(snapshot=space.snapshot, sites=space.sites)
    small = Devices(snapshot=tiling.tile.snapshot, sites=tiling.tile.sites)
    firsts = [_first_gpus(devices, small, tiling, copy) for copy in range(tiling.copies)]

    def copied(replica: ReplicaLayout, first_gpus: list[int]) -> ReplicaLayout:
        return tuple(
            PipelineStage(
                tuple(
                    first_gpus[machine] + gpu - small.first_gpus[machine]
                    for gpu in stage.gpus
                    for machine in [small.gpu_machines[gpu]]
                ),
                stage.num_layers,
            )
            for stage in replica
        )

    def everywhere(task: TaskLayout) -> TaskLayout:
        replicas = tuple(
            copied(replica, first_gpus) for first_gpus in firsts for replica in task.replicas
        )
        return replace(task, replicas=replicas)

    return Layout(tuple(tuple(everywhere(task) for task in group) for group in layout.groups))


def _left_over(space: Space, copies: int) -> int:
    taken = sum(site.num_gpus for site in _tile_sites(space, copies)) * copies
    return sum(site.num_gpus for site in space.sites) - taken


def _tile(space: Space, copies: int) -> Space | None:
    sites = _tile_sites(space, copies)
    if not sites:
        return None
    limits = space.limits
    budget = limits.budget_dollars_per_hour
    return Space.of(
        replace(space.work, batch_size=space.work.batch_size // copies),
        space.snapshot,
        sites,
        replace(
            limits,
            budget_dollars_per_hour=None if budget is None else budget / copies,
            max_gpus=None if limits.max_gpus is None else limits.max_gpus // copies,
        ),
        runnable_only=space.runnable_only,
    )


def _tile_sites(space: Space, copies: int) -> tuple[Site, ...]:
    """Return the sites of a tile: of every so many machines, largest first, the smallest."""
    return tuple(
        replace(
            site,
            machines=site.machines[copies - 1 :: copies],
            max_gpus=None if site.max_gpus is None else site.max_gpus // copies,
        )
        for site in space.sites
        if len(site.machines) >= copies
    )


def _first_gpus(devices: Devices, small: Devices, tiling: Tiling, copy: int) -> list[int]:
    """Return where each machine of the tile begins on one copy."""
    firsts: dict[str, list[int]] = {}
    for machine, first in enumerate(devices.first_gpus[:-1]):
        firsts.setdefault(devices.site(machine).name, []).append(first)
    return [
        firsts[site.name][number * tiling.copies + copy]
        for site in small.sites
        for number, _ in enumerate(site.machines)
    ]
