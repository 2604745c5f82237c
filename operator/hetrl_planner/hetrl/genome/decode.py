"""Decoding of genomes into layouts: numbered GPUs, and the cuts that a genome leaves open.

These are levels 4 and 5. Training takes the cut that is fastest on its GPUs; all other tasks take,
for each site, the split whose GPUs work fastest. Both are remembered by their inputs, so most
genomes decode from memory.
"""

from math import inf

from hetrl_core.task import SCORING_TASKS, TRAINING_TASKS, Task, programs_of
from hetrl_planner.hetrl.genome.assigned_gpus import Owned, Room, only_on, some_of
from hetrl_planner.hetrl.genome.colocation import TRAINED, Colocation, cut_as
from hetrl_planner.hetrl.genome.genome import Cut, Genome
from hetrl_planner.hetrl.genome.packing import Found, Packing
from hetrl_planner.hetrl.genome.screen import Screen
from hetrl_planner.hetrl.genome.training_placement import TaskPlacer
from hetrl_planner.hetrl.genome.ways import Ways
from hetrl_planner.layout.evaluate import Evaluator
from hetrl_planner.layout.fit.fitting import SplitFitter
from hetrl_planner.layout.fit.ranked import Split
from hetrl_planner.layout.fit.splits import DIVIDED_MODES
from hetrl_planner.layout.layout import Layout, TaskLayout
from hetrl_planner.problem.cached_method import cached_method
from hetrl_planner.problem.fleet_size import MostGpus

ROOM = (
    Task.ACTOR_TRAINING,
    Task.CRITIC_TRAINING,
    Task.REFERENCE_INFERENCE,
    Task.REWARD_INFERENCE,
    Task.CRITIC_INFERENCE,
    Task.ACTOR_GENERATION,
)
"""Tasks in the order in which they are given room: generation caches in what is left."""


PROMISING_SHAPES = 5
"""Shapes remembered for large groups; in small ones every shape is timed each time. Ours."""

PROMISING_SITES = 3
"""Sets of sites remembered for them. Ours."""

MOST_CUTS = 3
"""Repeated placements of processes with several tasks: their memory depends on the cut. Ours."""

Places = tuple[tuple[int, tuple[int, ...]], ...]
"""By machine, its site and the bytes reserved on each GPU."""

Timed = tuple[float, Cut | None]
"""Seconds of a cut; infinite if none fits."""


class Decoder:
    """A decoder of genomes into layouts for one job on one fleet."""

    def __init__(self, evaluator: Evaluator, *, runnable_only: bool = False) -> None:
        self._evaluator = evaluator
        self._devices = evaluator.devices
        self.fitting = SplitFitter(evaluator.work, evaluator.devices, runnable_only=runnable_only)
        self.laying = TaskPlacer(self.fitting)
        self.screen = Screen(self.fitting)
        self._colocation = Colocation(evaluator, self.laying)
        self._ways = Ways(evaluator, self.laying)
        self._promising: dict[tuple[object, ...], frozenset[tuple[int, int, bool]]] = {}
        self._promising_sites: dict[tuple[object, ...], list[tuple[int, ...]]] = {}
        self._cuts: dict[Places, Timed] = {}
        self._sites: dict[Places, tuple[float, Cut | None, tuple[int, ...]] | None] = {}

    def decode(self, genome: Genome) -> Layout | None:
        """Return a genome's layout, ``None`` if a task has no GPUs that could hold it."""
        groups = []
        for number, tasks in enumerate(genome.grouping):
            owned = self._owned(genome, number)
            if genome.is_packed and self._is_packable(tasks, owned):
                group = self._packed(tasks, owned)
            else:
                group = self._placed(genome, tasks, owned)
            if group is None:
                return None
            groups.append(group)
        return Layout(tuple(groups))

    @cached_method
    def _packed(self, tasks: tuple[Task, ...], owned: Owned) -> Found | None:
        return Packing(self._evaluator, self._ways, tasks, owned).best()

    def _is_packable(self, tasks: tuple[Task, ...], owned: Owned) -> bool:
        is_alike = self.fitting.runnable_only and len(tasks) > 1
        return self.screen.packs and owned.num_gpus <= MostGpus.PACKED_GROUP and not is_alike

    def deciding(self, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
        """Return the tasks of a group for which a genome may choose something.

        If all are cut alike, one task determines the cut of all.
        """
        is_alike = self.fitting.runnable_only and len(tasks) > 1
        return (self._leader(tasks),) if is_alike else tasks

    def cuts(self, task: Task, group: tuple[Task, ...], num_gpus: int) -> list[Cut]:
        """Return the cuts that may be chosen for a training task of a group with so many GPUs."""
        is_alike = self.fitting.runnable_only
        return self.laying.cuts(num_gpus, group if is_alike else (task,))

    def splits(self, task: Task, group: tuple[Task, ...], site: int) -> tuple[Split, ...]:
        """Return the splits that may be chosen for another task of a group on a site."""
        if self.fitting.runnable_only and len(group) > 1:
            return self.fitting.splits_alike(group, site)
        return tuple(self.fitting.splits(task, site, reserved_bytes=0))

    def _placed(
        self, genome: Genome, tasks: tuple[Task, ...], owned: Owned
    ) -> tuple[TaskLayout, ...] | None:
        """Place the tasks of a group; if they do not fit together, reserve less for scoring.

        Scoring's working memory depends on its split, which is unknown before.
        """
        if self.fitting.runnable_only and len(tasks) > 1:
            return self._alike(genome, tasks, owned) if owned.machines else None
        most, least = self.fitting.scoring_bytes
        group = self._group(genome, tasks, owned, scoring_bytes=most)
        if group is None or len(tasks) == 1 or not self._evaluator.misfit(group):
            return group
        return self._group(genome, tasks, owned, scoring_bytes=least) or group

    def _alike(
        self, genome: Genome, tasks: tuple[Task, ...], owned: Owned
    ) -> tuple[TaskLayout, ...] | None:
        """Place tasks that are cut alike: of one program, or of several."""
        leader = self._leader(tasks)
        used = self._used(genome, leader, owned)
        if leader not in TRAINING_TASKS:
            chosen = {site: split for each, site, split in genome.splits if each is leader}
            return self._colocation.serving(tasks, used, chosen)
        if len(programs_of(tasks)) > 1:
            return self._colocation.training(tasks, used, dict(genome.cuts).get(leader))
        return self._cut_alike(genome, tasks, owned)

    def _cut_alike(
        self, genome: Genome, tasks: tuple[Task, ...], owned: Owned
    ) -> tuple[TaskLayout, ...] | None:
        """Place the tasks of the same processes, with one cut for every model.

        The memory of the others depends on the cut, so a cut that leaves too little is redone.
        """
        least_bytes = self.fitting.least_resident_bytes
        first = self._leader(tasks)
        others = [task for task in tasks if task is not first]
        room = Room(later_bytes=sum(least_bytes(task, num_gpus=owned.num_gpus) for task in others))
        used = self._used(genome, first, owned)
        for _ in range(MOST_CUTS):
            cut = self._task(genome, first, used, room)
            if cut is None:
                return None
            group = tuple(cut_as(cut, task) for task in tasks)
            if not self._evaluator.misfit(group):
                return group
            beside = Room()
            for each in group:
                if each.task in others:
                    self._keep(each, beside)
            room = Room(later_bytes=max(beside.kept_bytes.values()))
        return None

    def _leader(self, tasks: tuple[Task, ...]) -> Task:
        """Return the trained task, the actor first, or else the first task."""
        return next((task for task in TRAINED if task in tasks), tasks[0])

    def _group(
        self, genome: Genome, tasks: tuple[Task, ...], owned: Owned, *, scoring_bytes: float
    ) -> tuple[TaskLayout, ...] | None:
        """Place the tasks of a group, those that keep most first.

        The bytes of earlier tasks are reserved for each one. If the genome leaves room, the least
        bytes of later tasks, divided among all GPUs, are reserved as well.
        """
        room = Room()
        placed: list[TaskLayout] = []
        waiting = sorted(tasks, key=ROOM.index)
        while waiting and owned.machines:
            task = waiting.pop(0)
            room.later_bytes = genome.leaves_room * sum(
                self.fitting.least_resident_bytes(each, num_gpus=owned.num_gpus) for each in waiting
            )
            room.is_before_generation = genome.leaves_room and Task.ACTOR_GENERATION in waiting
            room.own_bytes = scoring_bytes if task in SCORING_TASKS else inf
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
        """Record the bytes that a task keeps on each GPU while others run."""
        kept, working = room.kept_bytes, room.working_bytes
        for gpu, footprint in self._evaluator.footprints(task).items():
            kept[gpu] = kept.get(gpu, 0.0) + footprint.resident_bytes
            working[gpu] = max(working.get(gpu, 0.0), footprint.working_bytes)

    def _owned(self, genome: Genome, group: int) -> Owned:
        machines = []
        for machine in genome.order:
            counts = genome.counts[machine]
            if counts[group]:
                first = self._devices.first_gpus[machine] + sum(counts[:group])
                machines.append((machine, first, counts[group]))
        return Owned(tuple(machines))

    def _used(self, genome: Genome, task: Task, owned: Owned) -> Owned:
        """Return a task's part of its group's GPUs, in its order."""
        order = dict(genome.orders).get(task)
        uses = {
            machine: (first, count) for each, machine, first, count in genome.uses if each is task
        }
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
            return self.laying.training(task, owned, chosen, room, shifts) if chosen else None
        chosen_splits = {site: split for each, site, split in genome.splits if each is task}
        replicas = tuple(self.laying.serving(task, owned, chosen_splits, room))
        return TaskLayout(task, replicas) if replicas else None

    # Training

    def _fastest_cut(self, owned: Owned, room: Room) -> tuple[Owned, Cut | None]:
        """Return the GPUs that train fastest, of all sites or of some, and their cut."""
        site_of = self._devices.machine_sites
        sites = tuple(dict.fromkeys(site_of[machine] for machine, *_ in owned.machines))
        key = self._places(owned, room)
        if key not in self._sites:
            self._sites[key] = self._search_sites(owned, sites, room)
        found = self._sites[key]
        if found is None:
            return owned, None
        _, cut, taken = found
        return only_on(owned, taken, site_of), cut

    def _places(self, owned: Owned, room: Room) -> Places:
        """Return the key of equal GPUs: their sites and reserved bytes."""
        site_of = self._devices.machine_sites
        return tuple(
            (site_of[machine], room.reserved_on(first, count))
            for machine, first, count in owned.machines
        )

    def _search_sites(
        self, owned: Owned, sites: tuple[int, ...], room: Room
    ) -> tuple[float, Cut | None, tuple[int, ...]] | None:
        """Return the fastest cut on all sites or some, the most promising first.

        The time of arithmetic alone is a bound: sites that could not beat the best so far are
        skipped.
        """
        likeness, site_of = self._likeness(owned), self._devices.machine_sites
        choices = self._promising_sites.get(likeness) or some_of(sites)
        bounded = sorted(
            (self._least_training_seconds(here), number, here)
            for number, some in enumerate(choices)
            for here in [only_on(owned, some, site_of)]
        )
        found: list[tuple[float, Cut | None, tuple[int, ...]]] = []
        for least, number, here in bounded:
            if found and least >= found[0][0]:
                break
            found.append((*self._search_cuts(here, room), choices[number]))
            found.sort(key=lambda each: each[0])
        if found and found[0][1] and owned.num_gpus > MostGpus.SMALL:
            best = [some for _, _, some in found[:PROMISING_SITES]]
            self._promising_sites.setdefault(likeness, best)
        return found[0] if found else None

    def _least_training_seconds(self, owned: Owned) -> float:
        site_of = self._devices.machine_sites
        rate = sum(
            count / self.fitting.least_training_seconds(site_of[machine])
            for machine, _, count in owned.machines
        )
        return self.fitting.work.batch_size / rate

    def _search_cuts(self, owned: Owned, room: Room) -> Timed:
        """Return the fastest cut of these GPUs; the fastest one on empty GPUs is tried first."""
        places, empty = self._places(owned, room), self._places(owned, Room())
        if places not in self._cuts:
            if empty not in self._cuts:
                self._cuts[empty] = self._timed_cut(owned, Room())
            self._cuts[places] = self._same_cut(owned, room, self._cuts[empty]) or self._timed_cut(
                owned, room
            )
        return self._cuts[places]

    def _same_cut(self, owned: Owned, room: Room, timed: Timed) -> Timed | None:
        """Return a cut made for empty GPUs if it is as fast within the room: none is faster."""
        seconds, cut = timed
        task = cut and self.laying.training(Task.ACTOR_TRAINING, owned, cut, room)
        return timed if task and self._evaluator.training_seconds(task) <= seconds else None

    def _timed_cut(self, owned: Owned, room: Room) -> Timed:
        timed = [
            found
            for shape in self._promising_shapes(owned)
            if (found := self._fastest_mode(owned, shape, room))
        ]
        if not timed:
            return inf, None
        timed.sort(key=lambda each: each[0])
        if owned.num_gpus > MostGpus.SMALL:
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
                if (task := self.laying.training(Task.ACTOR_TRAINING, owned, cut, room))
            ]
            if timed:
                return min(timed, key=lambda each: each[0])
        return None

    def _promising_shapes(self, owned: Owned) -> list[tuple[int, int, bool]]:
        """Return the shapes worth timing: those that were best on similar GPUs, or all."""
        every = list(self.laying.shapes(owned.num_gpus))
        known = self._promising.get(self._likeness(owned), frozenset())
        return [shape for shape in every if shape in known] or every

    def _likeness(self, owned: Owned) -> tuple[object, ...]:
        """Return the key of GPUs on which the same shapes are fast."""
        sites = {self._devices.machine_sites[machine] for machine, *_ in owned.machines}
        return (tuple(sorted(sites)), owned.num_gpus.bit_length())


def _taken_over(task: Task, placed: list[TaskLayout]) -> TaskLayout | None:
    """Give a scoring task without room half of another's replicas: their models are equal."""
    for number, other in enumerate(placed):
        if {task, other.task} <= SCORING_TASKS and len(other.replicas) > 1:
            half = len(other.replicas) // 2
            placed[number] = TaskLayout(other.task, other.replicas[:half])
            return TaskLayout(task, other.replicas[half:])
    return None
