"""From a genome to a layout: the GPUs by number, and the cuts that nobody chose.

Levels 4 and 5, where a genome leaves them open. Training takes the cut that is fastest on its
GPUs; everything else, for each site, the split whose GPUs work fastest. Both are remembered
by what they depend on, so that most genomes decode from memory.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, product
from math import inf

from hetrl_core.plan import TrainingMode
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_planner.candidates import DIVIDED_MODES, STAGE_COUNTS, TENSOR_SIZES
from hetrl_planner.hetrl.genome import Cut, Genome
from hetrl_planner.hetrl.owned import Block, Owned, Room, Segment, only_on, some_of
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.fitting import Fitting, Place, Split
from hetrl_planner.layout.layout import Layout, ReplicaLayout, Stage, TaskLayout
from hetrl_planner.layout.replicas import ReplicaCosts

ROOM = (
    Task.ACTOR_TRAINING,
    Task.CRITIC_TRAINING,
    Task.REFERENCE_INFERENCE,
    Task.REWARD_INFERENCE,
    Task.CRITIC_INFERENCE,
    Task.ACTOR_GENERATION,
)
"""Tasks in the order in which they are given room: generation caches in what is left."""


SCORING_TASKS = frozenset(Task) - TRAINING_TASKS - {Task.ACTOR_GENERATION}

FEW_GPUS = 16
"""GPUs up to which every shape is timed each time. Ours."""

PROMISING_SHAPES = 5
"""Shapes remembered for more GPUs. Ours."""


class Decoder:
    """Turns genomes into layouts for one job on one fleet."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._devices = evaluator.devices
        self.fitting = Fitting(evaluator.work, evaluator.devices)
        self._costs = ReplicaCosts(evaluator.work, evaluator.devices)
        self._promising: dict[tuple[object, ...], frozenset[tuple[int, int, bool]]] = {}
        self._cuts: dict[tuple[object, ...], tuple[float, Cut | None, tuple[int, ...]] | None] = {}

    def decode(self, genome: Genome) -> Layout | None:
        """Return a genome's layout, ``None`` where a task has no GPUs that could hold it."""
        groups = []
        for number, tasks in enumerate(genome.grouping):
            group = self._group(genome, tasks, self._owned(genome, number))
            if group is None:
                return None
            groups.append(group)
        return Layout(tuple(groups))

    def _group(
        self, genome: Genome, tasks: Sequence[Task], owned: Owned
    ) -> tuple[TaskLayout, ...] | None:
        """Place the tasks of a group, those that keep most first.

        Each finds reserved what those before it keep. Where the genome leaves room, it finds
        reserved as well what those after it keep at least, were that divided among all.
        """
        room = Room()
        placed: list[TaskLayout] = []
        waiting = sorted(tasks, key=ROOM.index)
        while waiting and owned.machines:
            task = waiting.pop(0)
            room.later_bytes = genome.leaves_room * sum(
                self.fitting.least_resident_bytes(each, num_gpus=owned.num_gpus) for each in waiting
            )
            room.own_bytes = self.fitting.scoring_bytes if task in SCORING_TASKS else inf
            found = self._task(genome, task, self._used(genome, task, owned), room)
            if found is None:
                found = _taken_over(task, placed)
                if found is None:
                    return None
            elif waiting:
                self._keep(found, room)
            placed.append(found)
        return tuple(placed) or None

    def _keep(self, task: TaskLayout, room: Room) -> None:
        """Note what a task keeps on each GPU while others run."""
        for replica in task.replicas:
            key = self._costs.key(replica)
            for number, stage in enumerate(replica):
                footprint = self._costs.footprint(task, key, number)
                for gpu in stage.gpus:
                    room.kept_bytes[gpu] = room.kept_bytes.get(gpu, 0.0) + footprint.resident_bytes
                    room.working_bytes[gpu] = max(
                        room.working_bytes.get(gpu, 0.0), footprint.working_bytes
                    )

    def _owned(self, genome: Genome, group: int) -> Owned:
        machines = []
        for machine in genome.order:
            counts = genome.counts[machine]
            if counts[group]:
                first = self._devices.first_gpus[machine] + sum(counts[:group])
                machines.append((machine, first, counts[group]))
        return Owned(tuple(machines))

    def _used(self, genome: Genome, task: Task, owned: Owned) -> Owned:
        """Return what a task takes of its group's GPUs, in the order in which it takes them."""
        order = dict(genome.orders).get(task)
        uses = {machine: (first, count) for each, machine, first, count in genome.uses
                if each is task}  # fmt: skip
        if order is None and not uses:
            return owned
        machines = owned.machines
        if order is not None:
            place = {machine: number for number, machine in enumerate(order)}
            machines = tuple(sorted(machines, key=lambda each: place[each[0]]))
        taken = []
        for machine, first, count in machines:
            skipped, most = uses.get(machine, (0, count))
            used = min(most, count - skipped)
            if used > 0:
                taken.append((machine, first + skipped, used))
        return Owned(tuple(taken))

    def _task(self, genome: Genome, task: Task, owned: Owned, room: Room) -> TaskLayout | None:
        if task in TRAINING_TASKS:
            chosen = dict(genome.cuts).get(task)
            if chosen is None:
                owned, chosen = self._fastest_cut(owned, room)
            shifts = [(give, take) for each, give, take in genome.shifts if each is task]
            return self._training(task, owned, chosen, room, shifts) if chosen else None
        chosen_splits = {site: split for each, site, split in genome.splits if each is task}
        replicas = tuple(self._serving(task, owned, chosen_splits, room))
        return TaskLayout(task, replicas) if replicas else None

    # Training

    def _fastest_cut(self, owned: Owned, room: Room) -> tuple[Owned, Cut | None]:
        """Return the GPUs that train fastest, of all sites or of some, and their cut."""
        site_of = self._devices.machine_sites
        by_site: dict[int, list[Segment]] = {}
        for segment in owned.machines:
            by_site.setdefault(site_of[segment[0]], []).append(segment)
        key = tuple(
            (site_of[machine], tuple(room.reserved(gpu) for gpu in range(first, first + count)))
            for machine, first, count in owned.machines
        )
        if key not in self._cuts:
            self._cuts[key] = self._search_sites(owned, tuple(by_site), room)
        found = self._cuts[key]
        if found is None:
            return owned, None
        _, cut, sites = found
        return only_on(owned, sites, site_of), cut

    def _search_sites(
        self, owned: Owned, sites: tuple[int, ...], room: Room
    ) -> tuple[float, Cut | None, tuple[int, ...]] | None:
        """Return the fastest cut on all sites or some, the most promising first.

        What arithmetic alone would take is a bound: sites that could not beat the best so far
        are not looked at.
        """
        best: tuple[float, Cut | None, tuple[int, ...]] | None = None
        site_of = self._devices.machine_sites
        choices = [(only_on(owned, some, site_of), some) for some in some_of(sites)]
        bounded = sorted(
            (self._least_training_seconds(here), number, here, some)
            for number, (here, some) in enumerate(choices)
        )
        for least, _, here, some in bounded:
            if best and least >= best[0]:
                break
            found = (*self._search_cuts(here, room), some)
            if best is None or found[0] < best[0]:
                best = found
        return best

    def _least_training_seconds(self, owned: Owned) -> float:
        site_of = self._devices.machine_sites
        rate = sum(
            count / self.fitting.least_training_seconds(site_of[machine])
            for machine, _, count in owned.machines
        )
        return self.fitting.work.batch_size / rate

    def _search_cuts(self, owned: Owned, room: Room) -> tuple[float, Cut | None]:
        timed = [
            found
            for shape in self._promising_shapes(owned)
            if (found := self._fastest_mode(owned, shape, room))
        ]
        if not timed:
            return float("inf"), None
        timed.sort(key=lambda each: each[0])
        if owned.num_gpus > FEW_GPUS:
            best = [(cut.tensor, cut.num_stages, cut.is_striped) for _, cut in timed]
            self._promising.setdefault(self._likeness(owned), frozenset(best[:PROMISING_SHAPES]))
        return timed[0]

    def _fastest_mode(
        self, owned: Owned, shape: tuple[int, int, bool], room: Room
    ) -> tuple[float, Cut] | None:
        """Return the fastest way to train on a shape: one of the first row of modes that fits."""
        tensor, num_stages, is_striped = shape
        for modes in DIVIDED_MODES:
            timed = [
                (self._evaluator.training_seconds(task), cut)
                for mode in modes
                for cut in [Cut(tensor, num_stages, mode, is_striped)]
                if (task := self._training(Task.ACTOR_TRAINING, owned, cut, room))
            ]
            if timed:
                return min(timed, key=lambda each: each[0])
        return None

    def _promising_shapes(self, owned: Owned) -> list[tuple[int, int, bool]]:
        """Return the shapes worth timing: those that were best on much the same GPUs, or all."""
        every = list(self._shapes(owned.num_gpus))
        known = self._promising.get(self._likeness(owned), frozenset())
        return [shape for shape in every if shape in known] or every

    def _likeness(self, owned: Owned) -> tuple[object, ...]:
        """Return what GPUs have in common on which like shapes are fast."""
        sites = {self._devices.machine_sites[machine] for machine, *_ in owned.machines}
        return (tuple(sorted(sites)), owned.num_gpus.bit_length())

    def cuts(self, num_gpus: int) -> list[Cut]:
        """Return every cut for so many GPUs."""
        return [
            Cut(tensor, num_stages, mode, is_striped)
            for tensor, num_stages, is_striped in self._shapes(num_gpus)
            for modes in DIVIDED_MODES
            for mode in modes
        ]

    def _shapes(self, num_gpus: int) -> Iterator[tuple[int, int, bool]]:
        model = self.fitting.work.architecture
        for tensor, num_stages in product(TENSOR_SIZES, STAGE_COUNTS):
            if model.num_query_heads % tensor or num_stages > model.num_layers:
                continue
            if tensor * num_stages <= num_gpus:
                yield tensor, num_stages, False
            if num_stages > 1 and num_gpus >= 2 * tensor * num_stages:
                yield tensor, num_stages, True

    def _training(
        self,
        task: Task,
        owned: Owned,
        cut: Cut,
        room: Room,
        shifts: Sequence[tuple[int, int]] = (),
    ) -> TaskLayout | None:
        blocks = owned.blocks(cut.tensor)
        most = min(len(blocks) // cut.num_stages, self.fitting.most_training_replicas)
        if not most:
            return None
        stages = cut.num_stages
        pipelines = [
            blocks[replica : most * stages : most]
            if cut.is_striped
            else blocks[replica * stages : (replica + 1) * stages]
            for replica in range(most)
        ]
        layers = self.fitting.training_layers(
            [self._places(stage, room) for stage in zip(*pipelines, strict=True)],
            tensor=cut.tensor, mode=cut.mode, num_replicas=most,
        )  # fmt: skip
        if layers is None:
            return None
        mode = cut.mode if most > 1 else TrainingMode(recompute=cut.mode.recompute)
        shifted = _shifted(layers, shifts)
        return TaskLayout(task, tuple(_replica(blocks, shifted) for blocks in pipelines), mode)

    def _places(self, blocks: Sequence[Block], room: Room) -> tuple[Place, ...]:
        """Return where blocks stand, and what is reserved there, each once."""
        devices = self._devices
        return tuple(
            sorted(
                {
                    (
                        devices.machine_sites[devices.gpu_machines[block[0]]],
                        max(room.reserved(gpu) for gpu in block),
                    )
                    for block in blocks
                }
            )
        )

    # Generation and scoring

    def _serving(
        self, task: Task, owned: Owned, chosen: dict[int, Split], room: Room
    ) -> Iterator[ReplicaLayout]:
        places: dict[Place, list[Segment]] = {}
        for machine, first, count in owned.machines:
            site = self._devices.machine_sites[machine]
            for reserved, gpus in groupby(range(first, first + count), key=room.reserved):
                here = list(gpus)
                places.setdefault((site, reserved), []).append((machine, here[0], len(here)))
        left: dict[int, list[Segment]] = {}
        most: dict[int, int] = {}
        for (site, reserved), machines in sorted(places.items()):
            replicas, rest = self._filled(task, site, machines, chosen.get(site), reserved)
            yield from replicas
            left.setdefault(site, []).extend(rest)
            most[site] = reserved
        for site, machines in left.items():
            # What is left of unlike GPUs may still hold a replica together.
            if sum(each == site for each, _ in places) > 1:
                yield from self._filled(task, site, machines, chosen.get(site), most[site])[0]

    def _filled(
        self,
        task: Task,
        site: int,
        machines: Sequence[Segment],
        chosen: Split | None,
        reserved: int,
    ) -> tuple[list[ReplicaLayout], list[Segment]]:
        """Return as many replicas of a split as there is room for, and what is left."""
        splits = self.fitting.splits(task, site, reserved_bytes=reserved)
        if not splits:
            return [], list(machines)
        first = chosen or splits[0]
        # What a split leaves over may still hold smaller replicas.
        smaller = [split for split in splits if split[0] * split[1] < first[0] * first[1]]
        found, left = [], list(machines)
        for split in (first, *smaller):
            replicas, left = self._replicas(task, site, tuple(left), split, reserved)
            found += replicas
        return found, left

    def _replicas(
        self,
        task: Task,
        site: int,
        machines: tuple[Segment, ...],
        split: Split,
        reserved: int,
    ) -> tuple[list[ReplicaLayout], list[Segment]]:
        tensor, num_stages = split
        layers = self.fitting.serving_layers(task, site, split, reserved_bytes=reserved)
        blocks = Owned(machines).blocks(tensor)
        if layers is None or len(blocks) < num_stages:
            return [], list(machines)
        count = len(blocks) // num_stages
        replicas = [
            _replica(blocks[first : first + num_stages], layers)
            for first in range(0, count * num_stages, num_stages)
        ]
        taken = {block[0] for block in blocks[: count * num_stages]}
        return replicas, [
            (machine, first + used * tensor, number - used * tensor)
            for machine, first, number in machines
            for used in [sum(first <= gpu < first + number for gpu in taken)]
            if number > used * tensor
        ]


def _taken_over(task: Task, placed: list[TaskLayout]) -> TaskLayout | None:
    """Give a scoring task that finds no room half of another's replicas: they weigh the same."""
    for number, other in enumerate(placed):
        if {task, other.task} <= SCORING_TASKS and len(other.replicas) > 1:
            half = len(other.replicas) // 2
            placed[number] = TaskLayout(other.task, other.replicas[:half])
            return TaskLayout(task, other.replicas[half:])
    return None


def _shifted(layers: Sequence[int], shifts: Sequence[tuple[int, int]]) -> list[int]:
    """Move one layer for each shift that these stages allow."""
    shifted = list(layers)
    for give, take in shifts:
        if max(give, take) < len(shifted) and shifted[give] > 1:
            shifted[give] -= 1
            shifted[take] += 1
    return shifted


def _replica(blocks: Sequence[Block], layers: Sequence[int]) -> ReplicaLayout:
    return tuple(Stage(block, count) for block, count in zip(blocks, layers, strict=True))
