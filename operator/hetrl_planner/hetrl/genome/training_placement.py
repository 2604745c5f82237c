"""The layout of one task on given GPUs: cuts into stages, layers, replicas.

``fitting`` balances the layers within the room that other tasks leave. Callers choose the GPUs and
the cut.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise, product
from operator import itemgetter

from hetrl_core.plan.plan import TrainingMode
from hetrl_core.task import Task
from hetrl_planner.hetrl.genome.assigned_gpus import Block, Owned, Room, Segment
from hetrl_planner.hetrl.genome.genome import Cut
from hetrl_planner.hetrl.genome.serving_placement import PlacementCache, ServingPlacer, replica_on
from hetrl_planner.layout.fit.balance import Hops, Place
from hetrl_planner.layout.fit.fitting import SplitFitter
from hetrl_planner.layout.fit.ranked import Split
from hetrl_planner.layout.fit.splits import DIVIDED_MODES, STAGE_COUNTS, TENSOR_SIZES
from hetrl_planner.layout.layout import ReplicaLayout, TaskLayout

TRAINING = (Task.ACTOR_TRAINING,)


class TaskPlacer:
    """Layouts of single tasks of one job on one fleet."""

    def __init__(self, fitting: SplitFitter) -> None:
        self.fitting = fitting
        self._filled = PlacementCache()
        self._devices = fitting.devices
        sites = self._devices.machine_sites
        self._gpu_sites = tuple(sites[machine] for machine in self._devices.gpu_machines)

    def cuts(self, num_gpus: int, tasks: tuple[Task, ...] = TRAINING) -> list[Cut]:
        """Return every cut for so many GPUs that all tasks with one cut support."""
        return [
            Cut(tensor, num_stages, mode, is_striped)
            for tensor, num_stages, is_striped in self.shapes(num_gpus, tasks)
            for modes in DIVIDED_MODES
            for mode in modes
        ]

    def shapes(
        self, num_gpus: int, tasks: tuple[Task, ...] = TRAINING
    ) -> Iterator[tuple[int, int, bool]]:
        """Yield tensor size, stages and stripes of every cut for so many GPUs."""
        model = self.fitting.work.architecture
        for tensor, num_stages in product(TENSOR_SIZES, STAGE_COUNTS):
            if model.num_query_heads % tensor or num_stages > model.num_layers:
                continue
            if not self.fitting.may_be_alike(tasks, (tensor, num_stages)):
                continue
            if tensor * num_stages <= num_gpus:
                yield tensor, num_stages, False
            if num_stages > 1 and num_gpus >= 2 * tensor * num_stages:
                yield tensor, num_stages, True

    def training(
        self,
        task: Task,
        owned: Owned,
        cut: Cut,
        room: Room,
        shifts: Sequence[tuple[int, int]] = (),
    ) -> TaskLayout | None:
        """Return a training task with as many replicas of a cut as fit, ``None`` if none fits."""
        blocks = owned.blocks(cut.tensor)
        most = min(len(blocks) // cut.num_stages, self.fitting.most_training_replicas)
        if not most:
            return None
        by_stage = _by_stage(blocks[: most * cut.num_stages], cut)
        return self.staged(task, by_stage, cut.mode, room, shifts)

    def staged(
        self,
        task: Task,
        by_stage: Sequence[Sequence[Block]],
        mode: TrainingMode,
        room: Room,
        shifts: Sequence[tuple[int, int]] = (),
    ) -> TaskLayout | None:
        """Return a training task whose stages have these blocks, one a replica each.

        ``None`` if no division of the layers fits.
        """
        num_replicas = len(by_stage[0])
        layers = self.fitting.balance.layers(
            [self._places(stage, room) for stage in by_stage],
            tensor=len(by_stage[0][0]),
            mode=mode,
            num_replicas=num_replicas,
            hops=self._hops(by_stage),
        )
        if layers is None:
            return None
        mode = mode if num_replicas > 1 else TrainingMode(recompute=mode.recompute)
        shifted = _shifted(layers, shifts)
        pipelines = zip(*by_stage, strict=True)
        return TaskLayout(task, tuple([replica_on(blocks, shifted) for blocks in pipelines]), mode)

    def _places(self, blocks: Sequence[Block], room: Room) -> tuple[Place, ...]:
        """Return the places of blocks and the bytes reserved there, without duplicates."""
        site_of = self._gpu_sites
        return tuple(sorted({(site_of[block[0]], room.most_reserved(block)) for block in blocks}))

    def _hops(self, by_stage: Sequence[Sequence[Block]]) -> Hops:
        """Return the channels from each stage to the next, without duplicates."""
        machine_of, site_of = self._devices.gpu_machines, self._gpu_sites
        return tuple(
            tuple(
                sorted(
                    {
                        (
                            site_of[here[0]],
                            site_of[there[0]],
                            machine_of[here[0]] == machine_of[there[0]],
                        )
                        for here, there in zip(stage, following, strict=True)
                    }
                )
            )
            for stage, following in pairwise(by_stage)
        )

    # Generation and scoring

    def serving(
        self,
        task: Task,
        owned: Owned,
        chosen: dict[int, Split],
        room: Room,
        alike: tuple[Task, ...] = (),
    ) -> Iterator[ReplicaLayout]:
        """Yield replicas of a task that does not train, site by site, as many as fit.

        Sites without a chosen split get the best one, for all tasks in ``alike`` if there are
        any.
        """
        by_site: dict[int, dict[int, list[Segment]]] = {}
        for machine, first, count in owned.machines:
            here = by_site.setdefault(self._devices.machine_sites[machine], {})
            numbered = zip(room.reserved_on(first, count), range(first, first + count), strict=True)
            for reserved, beside in groupby(numbered, key=itemgetter(0)):
                (_, begin), *others = beside
                here.setdefault(reserved, []).append((machine, begin, 1 + len(others)))
        for site, places in sorted(by_site.items()):
            filling = ServingPlacer(
                self.fitting,
                task,
                site,
                chosen.get(site),
                room.is_before_generation,
                self._filled,
                alike,
            )
            served = [filling.apart(places)]
            if len(places) > 1:
                whole = [
                    segment
                    for segment in owned.machines
                    if self._devices.machine_sites[segment[0]] == site
                ]
                served.append(filling.filled(whole, max(places)))
            yield from max(served, key=lambda each: each.rate).replicas


def _by_stage(blocks: Sequence[Block], cut: Cut) -> list[Sequence[Block]]:
    """Return the blocks that hold each stage, replica by replica."""
    if cut.is_striped:
        replicas = len(blocks) // cut.num_stages
        return [blocks[first : first + replicas] for first in range(0, len(blocks), replicas)]
    return [blocks[first :: cut.num_stages] for first in range(cut.num_stages)]


def _shifted(layers: Sequence[int], shifts: Sequence[tuple[int, int]]) -> list[int]:
    """Move one layer for each shift that these stages allow."""
    shifted = list(layers)
    for give, take in shifts:
        if max(give, take) < len(shifted) and shifted[give] > 1:
            shifted[give] -= 1
            shifted[take] += 1
    return shifted
