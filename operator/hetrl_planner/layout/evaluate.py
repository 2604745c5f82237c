"""The cost model over whole layouts: ``Evaluation`` or ``Misfit``.

``cost`` has the terms; here they are put together: the contents of each GPU, and the division of
the batch. ``step`` models the waits between groups; ``replicas`` remembers replica costs.

A synchronous step is generation, then scoring, then training; groups work side by side within
each of the three, tasks of one group take turns. An asynchronous step takes as long as the
busiest group (HetRL, arXiv 2512.12476, section 3; AReaL-Hex's ``min max(C_T, C_I)`` is the
case of two groups), or as two that train and keep step.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

from hetrl_core.plan.plan import MemoryUse
from hetrl_core.task import Task
from hetrl_planner.cost import memory
from hetrl_planner.cost.iteration import mean_staleness
from hetrl_planner.cost.network import WeightSync
from hetrl_planner.cost.rollouts import OtherStepParts, Rollouts, generated
from hetrl_planner.cost.serving import Serving
from hetrl_planner.layout import step
from hetrl_planner.layout.evaluation import Evaluation, Misfit, TaskCost
from hetrl_planner.layout.layout import Layout, TaskLayout
from hetrl_planner.layout.task_costs import GroupFootprints, TaskCosts
from hetrl_planner.layout.weights import WeightPaths

DOING = {
    Task.ACTOR_GENERATION: "generation",
    Task.REFERENCE_INFERENCE: "reference scoring",
    Task.REWARD_INFERENCE: "reward scoring",
    Task.CRITIC_INFERENCE: "critic scoring",
    Task.ACTOR_TRAINING: "training",
    Task.CRITIC_TRAINING: "critic training",
}
"""Tasks as bottlenecks name them."""


class Evaluator(TaskCosts):
    """Prices layouts of one job on one fleet."""

    def evaluate(self, layout: Layout) -> Evaluation | Misfit:
        """Return the cost of a layout, or which GPU is too small for it.

        Replicas whose responses would always come too late for the staleness bound are left
        out, unless the job requests so many: they would only delay their prompt groups.
        """
        footprints: GroupFootprints = defaultdict(list)
        keys = {task.task: self._keys(task) for task in layout.tasks}
        for group in layout.groups:
            for task in group:
                self._add_footprints(task, keys[task.task], footprints)
            self._add_programs(group, footprints)
        misfit = self._misfit(footprints)
        if misfit:
            return misfit
        costs: dict[Task, TaskCost] = {
            task.task: self._train(task, keys[task.task])
            if task.mode
            else self._score(keys[task.task])
            for task in layout.tasks
            if task.task is not Task.ACTOR_GENERATION
        }
        for name, cost in costs.items():
            if not all(cost.shares):
                return Misfit(f"a replica is too slow to be given any {DOING[name]}", 1.01)
        generating = layout.task(Task.ACTOR_GENERATION)
        kept = {
            gpu: memory.beside_generation(footprints[gpu], self.work) for gpu in generating.gpus
        }
        servings = self._servings(generating, keys[Task.ACTOR_GENERATION], kept)
        if isinstance(servings, Misfit):
            return servings
        return self._in_time(layout, costs, servings)

    def alone_seconds(self, group: Sequence[TaskLayout]) -> dict[Task, float] | Misfit:
        """Return the cost of each task of one group, or which GPU is too small for them.

        Inputs from other groups, weights included, are there at once.
        """
        footprints = self._together_footprints(group)
        if misfit := self._misfit(footprints):
            return misfit
        kept = {gpu: memory.beside_generation(held, self.work) for gpu, held in footprints.items()}
        found = {}
        for task in group:
            seconds = self._seconds_alone(task, group, kept)
            if seconds is None:
                return Misfit("no GPU memory is left for keys and values", 1.05)
            found[task.task] = seconds
        return found

    def misfit(self, group: Sequence[TaskLayout]) -> Misfit | None:
        """Return which GPU is too small for the tasks of a group, caches not counted."""
        return self._misfit(self._together_footprints(group))

    def _together_footprints(self, group: Sequence[TaskLayout]) -> GroupFootprints:
        footprints: GroupFootprints = defaultdict(list)
        for task in group:
            self._add_footprints(task, self._keys(task), footprints)
        self._add_programs(group, footprints)
        return footprints

    def _add_programs(self, group: Sequence[TaskLayout], footprints: GroupFootprints) -> None:
        more = memory.more_programs([task.task for task in group], self.work)
        if more:
            for gpu in group[0].gpus:
                footprints[gpu] += more

    def _seconds_alone(
        self, task: TaskLayout, group: Sequence[TaskLayout], kept_bytes: Mapping[int, float]
    ) -> float | None:
        if task.mode:
            return self.training_seconds(task)
        if task.task is not Task.ACTOR_GENERATION:
            return self.scoring_seconds(task)
        weights = None
        if any(each.task is Task.ACTOR_TRAINING for each in group):
            weights = WeightPaths(Layout((tuple(group),)), self.work, self.devices).syncs
        return self.generating_seconds(task, kept_bytes, weights)

    # Memory

    def memory(self, found: Evaluation) -> dict[int, MemoryUse]:
        """Return the memory of each GPU in use, caches as full as generation fills them."""
        footprints: GroupFootprints = defaultdict(list)
        for task in found.layout.tasks:
            places = found.tasks[task.task].concurrency
            for number, (replica, key) in enumerate(
                zip(task.replicas, self._keys(task), strict=True)
            ):
                for stage_number, stage in enumerate(replica):
                    footprint = self._replicas.footprint(task, key, stage_number)
                    if places:
                        shard = self._replicas.stages(key)[stage_number].shard
                        footprint = memory.generation_footprint(
                            shard, self.work, concurrency=places[number]
                        )
                    for gpu in stage.gpus:
                        footprints[gpu].append(footprint)
        for group in found.layout.groups:
            self._add_programs(group, footprints)
        return {
            gpu: memory.together(tasks, self.devices.kind(self.devices.gpu_machines[gpu]))
            for gpu, tasks in footprints.items()
        }

    def _misfit(self, footprints: GroupFootprints) -> Misfit | None:
        usable, machine_of = self.devices.usable_bytes, self.devices.gpu_machines
        site_of = self.devices.machine_sites
        worst, where = 1.0, -1
        for gpu, tasks in footprints.items():
            needed = sum([each.resident_bytes for each in tasks])
            needed += max([each.working_bytes for each in tasks])
            if needed <= usable[site_of[machine_of[gpu]]]:
                continue
            kind = self.devices.kind(machine_of[gpu])
            share = (needed + memory.overhead_bytes(kind)) / kind.memory_bytes
            if share > worst:
                worst, where = share, gpu
        if where < 0:
            return None
        machine = self.devices.gpu_machines[where]
        return Misfit(f"a GPU of {self.devices.machine_names[machine]} is too small", worst)

    # The step

    def _in_time(
        self, layout: Layout, costs: dict[Task, TaskCost], servings: Sequence[Serving]
    ) -> Evaluation | Misfit:
        """Price a layout without the replicas that are always late, as long as that leaves enough.

        Those that stay keep their caches: no serving task shared the GPUs of the others. If all
        tasks on some GPUs are cut alike, generation alone cannot leave them.
        """
        is_alone = len(layout.groups[layout.group_of(Task.ACTOR_GENERATION)]) == 1
        while True:
            found = self._together(layout, costs, servings)
            late = [not each for each in found.tasks[Task.ACTOR_GENERATION].rates]
            if not any(late) or late.count(False) < self.work.min_replicas:
                return found
            if self.work.programs_stay and not is_alone:
                return Misfit("what shares GPUs would generate too late there", 1.01)
            layout = _without(layout, late)
            servings = [each for each, is_late in zip(servings, late, strict=True) if not is_late]

    def _together(
        self,
        layout: Layout,
        costs: dict[Task, TaskCost],
        servings: Sequence[Serving],
    ) -> Evaluation:
        paths = WeightPaths(layout, self.work, self.devices)
        generation, running = self._generate(layout, costs, servings, paths.syncs)
        costs = {Task.ACTOR_GENERATION: generation, **costs}
        side_seconds = step.side_seconds(layout, costs)
        step_seconds = self._step_seconds(layout, costs, side_seconds)
        busiest = max(layout.groups, key=lambda group: step.busy_seconds(group, costs))
        return Evaluation(
            layout=layout,
            step_seconds=step_seconds,
            tasks=costs,
            training_side_seconds=side_seconds,
            weight_sync_seconds=max(each.total_seconds for each in paths.syncs),
            running=running,
            gpu_dollars_per_hour=self.dollars_per_hour(layout),
            egress_dollars_per_step=paths.egress_dollars,
            mean_staleness=mean_staleness(
                step_seconds=step_seconds,
                generation_seconds=generation.seconds,
                training_seconds=side_seconds,
                running=running,
                batch_size=self.work.batch_size,
                max_staleness=self.work.max_staleness,
            ),
            bottleneck=self._bottleneck(busiest, costs),
        )

    def _generate(
        self,
        layout: Layout,
        costs: Mapping[Task, TaskCost],
        servings: Sequence[Serving],
        syncs: Sequence[WeightSync],
    ) -> tuple[TaskCost, float]:
        """Return generation's cost, and how many trajectories it runs at once."""
        alike: dict[tuple[int, WeightSync], list[int]] = defaultdict(list)
        for number, (serving, sync) in enumerate(zip(servings, syncs, strict=True)):
            alike[id(serving), sync].append(number)
        rollouts = [
            Rollouts(serving=servings[numbers[0]], num_replicas=len(numbers), weights=sync)
            for (_, sync), numbers in alike.items()
        ]
        found = generated(rollouts, self.work, self._beside(layout, costs))
        rates, places = [0.0] * len(servings), [0.0] * len(servings)
        for numbers, at_once in zip(alike.values(), found.concurrency, strict=True):
            rate = servings[numbers[0]].samples_per_second(at_once)
            for number in numbers:
                rates[number], places[number] = rate, at_once
        total = sum(rates)
        fastest = max(range(len(servings)), key=lambda number: rates[number])
        cost = TaskCost(
            seconds=found.seconds,
            shares=tuple(rate / total for rate in rates),
            rates=tuple(rates),
            binding=servings[fastest].cost.binding(places[fastest]),
            is_held_back=places[fastest] < servings[fastest].max_concurrency - 1,
            concurrency=tuple(max(1, ceil(place)) for place in places),
        )
        return cost, sum(places)

    def _beside(self, layout: Layout, costs: Mapping[Task, TaskCost]) -> OtherStepParts:
        group = layout.groups[layout.group_of(Task.ACTOR_GENERATION)]
        return OtherStepParts(
            training_side_seconds=step.side_seconds(layout, costs),
            others_seconds=step.longest_seconds(layout, costs),
            same_gpus_seconds=step.busy_seconds(group, costs),
            scoring_seconds=self._scoring_apart_seconds(layout, costs),
        )

    def _scoring_apart_seconds(self, layout: Layout, costs: Mapping[Task, TaskCost]) -> float:
        """Return how long a trajectory waits for scores away from the trainer.

        If that takes a share of a step, the same share of a batch is in scoring.
        """
        return 0.0 if self.work.is_synchronous else step.scoring_apart_seconds(layout, costs)

    def _step_seconds(
        self, layout: Layout, costs: Mapping[Task, TaskCost], side_seconds: float
    ) -> float:
        if self.work.is_synchronous:
            return costs[Task.ACTOR_GENERATION].seconds + side_seconds
        return step.longest_seconds(layout, costs)

    def dollars_per_hour(self, layout: Layout) -> float:
        """Return the price of the GPUs in use."""
        return sum(
            self.devices.kind(self.devices.gpu_machines[gpu]).dollars_per_hour
            for gpu in layout.gpus
        )

    def _bottleneck(self, group: Sequence[TaskLayout], costs: Mapping[Task, TaskCost]) -> str:
        longest = max(group, key=lambda task: costs[task.task].seconds)
        first = next(longest.stages).gpus[0]
        kind = self.devices.kind(self.devices.gpu_machines[first]).name
        cost = costs[longest.task]
        if cost.is_held_back:
            return f"{DOING[longest.task]}: {self.work.limit_on_running}"
        return f"{DOING[longest.task]}: {cost.binding} of the {kind}s"


def _without(layout: Layout, late: Sequence[bool]) -> Layout:
    """Return a layout without the generating replicas that are marked."""

    def kept(task: TaskLayout) -> TaskLayout:
        if task.task is not Task.ACTOR_GENERATION:
            return task
        replicas = zip(task.replicas, late, strict=True)
        return replace(task, replicas=tuple(each for each, is_late in replicas if not is_late))

    return Layout(tuple(tuple(kept(task) for task in group) for group in layout.groups))
