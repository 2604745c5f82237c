"""Compilation of a plan to a pipeline; only this module knows plans and costs.

Speeds come from the cost model, term by term; shares of work from each group's predicted
rate. The simulation replaces the averages of the cost model (lengths, loads, waiting).
"""

from collections.abc import Sequence
from itertools import pairwise

from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan, ReplicaGroup
from hetrl_core.task import Task
from hetrl_planner.cost.generation import GenerationCost
from hetrl_planner.cost.inference import inference_pace
from hetrl_planner.cost.network import Channel, between_machines, inside_machine
from hetrl_planner.cost.shard import shards
from hetrl_planner.cost.stage import PlacedStage
from hetrl_planner.problem.lengths import Lengths, lognormal_of_max
from hetrl_planner.problem.workload import Workload, workload
from hetrl_planner.simulator.pipeline.pipeline import (
    Failures,
    InferenceStage,
    ParallelTraining,
    Pipeline,
    RolloutGroup,
    SharedGpus,
    TrainerSpec,
)
from hetrl_planner.simulator.pipeline.placed import (
    PlacedGroup,
    Prices,
    StagePlace,
    place,
    stages_of,
)
from hetrl_planner.simulator.pipeline.training_turns import TrainingTurns
from hetrl_planner.simulator.pipeline.weight_routes import weight_routes

LEASE_SECONDS = 20.0
"""The length of a lease, as in the runtime's coordinator."""


def compile_plan(
    plan: Plan,
    job: JobSpec,
    snapshot: ClusterSnapshot,
    *,
    lengths: Lengths | None = None,
    failures: Failures | None = None,
) -> Pipeline:
    """Return the pipeline that a plan describes.

    Args:
        plan: a plan of this job on this fleet.
        job: with its model's dimensions.
        snapshot: with every machine and GPU kind that the plan names.
        lengths: of responses; None: log-normal with the job's mean, one in a hundred cut.
        failures: scheduled and random failures; None: none.

    Raises:
        ValueError: the model's dimensions are not known, or job and plan do not fit.
    """
    if job.model.architecture is None:
        raise ValueError(f"the dimensions of model {job.model.source} are not known")
    return _Compiler(plan, job, snapshot).pipeline(
        lengths=lengths or _lengths(workload(job, job.model.architecture)),
        failures=failures or Failures(),
    )


def _lengths(work: Workload) -> Lengths:
    return lognormal_of_max(mean_tokens=work.response_tokens, max_tokens=work.max_response_tokens)


class _Compiler:
    """The compilation of one plan."""

    def __init__(self, plan: Plan, job: JobSpec, snapshot: ClusterSnapshot) -> None:
        assert job.model.architecture is not None
        self._job = job
        self._snapshot = snapshot
        self._work = workload(job, job.model.architecture)
        self._prices = Prices(job.resources, snapshot)
        self._placed = place(plan, snapshot)
        self._turns = TrainingTurns(self._placed, self._work, self._placed_stages)
        training = plan.groups_with(Task.ACTOR_TRAINING)
        if not training or not plan.groups_with(Task.ACTOR_GENERATION):
            raise ValueError("a plan must have groups for actor training and actor generation")
        self._trainer_region = training[0].region

    def pipeline(self, *, lengths: Lengths, failures: Failures) -> Pipeline:
        """Return the whole pipeline."""
        trainer = self._trainer()
        rollouts = tuple(
            self._rollout(each, number)
            for number, each in enumerate(self._placed)
            if Task.ACTOR_GENERATION in each.group.tasks
        )
        return Pipeline(
            batch_size=self._work.batch_size,
            group_size=self._job.algorithm.group_size,
            max_staleness=0 if self._work.is_synchronous else self._work.max_staleness,
            lengths=lengths,
            trainer=trainer,
            rollouts=rollouts,
            stages=tuple(
                self._stage(task)
                for task in dict.fromkeys(
                    task
                    for each in self._placed
                    if not self._turns.keeps_step(each)
                    for task in each.scored_by
                )
            ),
            routes=weight_routes(self._placed, self._work, self._snapshot),
            shared_gpus=tuple(
                SharedGpus(name=name)
                for name in dict.fromkeys(each.shared for each in self._placed if each.shared)
            ),
            lease_seconds=LEASE_SECONDS,
            failures=failures,
        )

    def _trainer(self) -> TrainerSpec:
        turns, trained = self._turns, [each for each in self._placed if each.trained_by]
        shared = {each.shared for each in self._placed}
        return TrainerSpec(
            step_seconds=turns.seconds[turns.main] + self._inside_trainer_seconds(trained),
            minibatches=self._work.minibatches,
            checkpoint_every_steps=self._job.training.checkpoint_every_steps,
            gpus=(turns.main,) if turns.main in shared else (),
            beside=tuple(
                ParallelTraining(
                    name=" and ".join(turns.tasks[name]),
                    step_seconds=seconds,
                    gpus=(name,) if name in shared else (),
                )
                for name, seconds in turns.seconds.items()
                if name != turns.main
            ),
            dollars_per_hour=self._prices.charge(
                [*trained, *filter(turns.keeps_step, self._placed)]
            ),
        )

    def _inside_trainer_seconds(self, placed: Sequence[PlacedGroup]) -> float:
        """Return the time of a reference that no group names: the trainer scores with it."""
        named = {task for each in self._placed for task in each.group.tasks}
        if Task.REFERENCE_INFERENCE not in set(self._work.tasks) - named:
            return 0.0
        return max(
            self._turns.scoring_seconds(each.group)
            for each in placed
            if Task.ACTOR_TRAINING in each.trained_by
        )

    def _rollout(self, placed: PlacedGroup, number: int) -> RolloutGroup:
        group = placed.group
        stages = self._placed_stages(group)
        cost = GenerationCost(work=self._work, stages=stages)
        prefill_seconds = cost.sample_seconds(1) - self._work.response_tokens * cost.token_seconds(
            1
        )
        wire = between_machines(self._snapshot, group.region, self._trainer_region)
        return RolloutGroup(
            name=f"{group.gpu_kind} in {group.region} {group.parallelism} ({number})",
            region=group.region,
            num_replicas=len(group.replicas),
            token_seconds=tuple(
                cost.token_seconds(running)
                for running in range(1, self._num_places(group, stages) + 1)
            ),
            prefill_seconds=max(0.0, prefill_seconds),
            upload_seconds=wire.latency_seconds,
            gpus=placed.shared,
            dollars_per_hour=self._prices.charge([placed]) / len(group.replicas),
        )

    def _num_places(self, group: ReplicaGroup, stages: Sequence[PlacedStage]) -> int:
        """Return a replica's concurrency: the plan's, or by default its cache's."""
        if group.concurrency:
            return group.concurrency
        held = group.memory.kv_cache_bytes // (
            self._work.sample_tokens * max(each.shard.kv_bytes_per_token for each in stages)
        )
        return max(1, int(held))

    def _stage(self, task: Task) -> InferenceStage:
        """Return the stage of a task: all of its replicas, each at its own speed."""
        placed = [each for each in self._placed if task in each.scored_by]
        return InferenceStage(
            name=task.value,
            server_seconds=tuple(
                inference_pace(self._work, self._placed_stages(each.group)).slot_seconds
                for each in placed
                for _ in each.group.replicas
            ),
            # On shared GPUs, scoring one by one would interrupt the others for each trajectory.
            waits_for_batch=self._work.is_synchronous or bool(placed[0].shared),
            gpus=placed[0].shared,
            dollars_per_hour=self._prices.charge(placed),
        )

    def _placed_stages(self, group: ReplicaGroup) -> tuple[PlacedStage, ...]:
        """Return a replica's stages as the cost model wants them, on the wires of its first one."""
        cut = shards(self._work.architecture, group.parallelism)
        places = stages_of(group, group.replicas[0])
        hops = [self._hop(*pair) for pair in pairwise(places)]
        return tuple(
            PlacedStage(shard=shard, kind=self._snapshot.kind(place.gpu_kind), hop=hop)
            for shard, place, hop in zip(cut, places, [*hops, None], strict=True)
        )

    def _hop(self, place: StagePlace, following: StagePlace) -> Channel:
        if place.machine == following.machine:
            return inside_machine(self._snapshot.kind(place.gpu_kind))
        return between_machines(self._snapshot, place.region, following.region)
