"""The work of one policy version, in the cost model's numbers.

It is made once from a job, and is independent of the form of the job's spec.
"""

from dataclasses import dataclass
from functools import cache

from hetrl_core.job.algorithm import AlgorithmType, Mode
from hetrl_core.job.architecture import ModelArchitecture
from hetrl_core.job.spec import Engine, JobSpec
from hetrl_core.task import Task
from hetrl_planner.problem.lengths import lognormal_of_max

ON_TIME = 0.85
"""Share of the staleness bound that a group's expected time may fill, since groups differ.

Ours: with it, steps of the simulator are met within about a tenth (``docs/simulator.md``).
"""

FEWEST_ALIKE = 2
"""Smallest number of trajectories to wait for: a single one is not always of average length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Model, lengths, batch and staleness bound of a job."""

    architecture: ModelArchitecture
    prompt_tokens: int
    """Of an average prompt; jobs state only the longest, and half of it is assumed."""

    response_tokens: int
    """Of an average response."""

    max_prompt_tokens: int
    max_response_tokens: int
    batch_size: int
    """Trajectories consumed per version, B."""

    group_size: int
    """Trajectories of one prompt, trained on together."""

    minibatches: int
    """Optimizer steps per version."""

    max_staleness: int
    is_synchronous: bool
    tasks: tuple[Task, ...]
    """Tasks of an iteration; all models have the actor's dimensions."""

    engine: Engine
    """Generation engine; not every engine splits a replica over several GPUs."""

    min_replicas: int = 1
    """Smallest number of rollouts that the job requests, useful or not."""

    programs_stay: bool = False
    """Whether each program on a GPU keeps its memory while others compute, as those of this
    release do. Otherwise tasks that share GPUs take turns with their memory as well."""

    generation_apart: bool = False
    """Whether generation is kept off the GPUs that train."""

    @property
    def sample_tokens(self) -> int:
        """Tokens of an average trajectory."""
        return self.prompt_tokens + self.response_tokens

    @property
    def max_sample_tokens(self) -> int:
        """Tokens of the longest trajectory that must still fit."""
        return self.max_prompt_tokens + self.max_response_tokens

    @property
    def training_side(self) -> tuple[Task, ...]:
        """Every task but generation: those between a generated batch and new weights."""
        return tuple(task for task in self.tasks if task is not Task.ACTOR_GENERATION)

    @property
    def most_running(self) -> int:
        """Trajectories that can usefully be generated at once by all replicas together.

        What is leased under version ``v`` must be whole, with its group, before version
        ``v + η`` takes its batch: with ``s`` seconds a trajectory and ``κ·s`` a group,
        ``κ·s <= η·T``, and by Little's law ``B·s/T <= η·B/κ`` run. More than that would be
        rejected by the strict check. A synchronous step generates one whole batch.
        """
        if self.is_synchronous:
            return self.batch_size
        on_time = ON_TIME * self.max_staleness / self.group_spread
        return max(1, int(self.batch_size * on_time))

    @property
    def limit_on_running(self) -> str:
        """The limit on generating more at once, in words."""
        if self.is_synchronous:
            return f"the batch of {self.batch_size}"
        return f"staleness bound, groups are done within {self.max_staleness} steps"

    @property
    def group_spread(self) -> float:
        """κ: how long a whole group takes, in times of an average trajectory."""
        return _group_spread(self.response_tokens, self.max_response_tokens, self.group_size)


@cache
def _group_spread(mean_tokens: int, max_tokens: int, group_size: int) -> float:
    lengths = lognormal_of_max(mean_tokens=mean_tokens, max_tokens=max_tokens)
    return lengths.mean_longest(max(FEWEST_ALIKE, group_size)) / lengths.mean_tokens


def workload(
    job: JobSpec, architecture: ModelArchitecture, *, programs_stay: bool = False
) -> Workload:
    """Return the work of one policy version of a job."""
    data, algorithm = job.data, job.algorithm
    return Workload(
        architecture=architecture,
        prompt_tokens=max(1, data.max_prompt_tokens // 2),
        response_tokens=data.expected_response_tokens,
        max_prompt_tokens=data.max_prompt_tokens,
        max_response_tokens=data.max_response_tokens,
        batch_size=algorithm.global_batch_size,
        group_size=algorithm.group_size,
        minibatches=algorithm.minibatches,
        max_staleness=algorithm.max_staleness,
        is_synchronous=algorithm.mode is Mode.SYNC or algorithm.max_staleness == 0,
        tasks=tasks_of(job),
        engine=job.engine,
        min_replicas=job.rollout.replicas or job.rollout.min_replicas,
        programs_stay=programs_stay,
    )


def tasks_of(job: JobSpec) -> tuple[Task, ...]:
    """Return the tasks that need GPUs, in the order in which an iteration comes to them.

    Rewards are computed on CPUs but for a reward model's. A reference scores only where its KL term
    counts.
    """
    algorithm = job.algorithm
    has_critic = algorithm.type is AlgorithmType.PPO
    wanted = {
        Task.ACTOR_GENERATION: True,
        Task.REFERENCE_INFERENCE: algorithm.kl_coefficient > 0,
        Task.REWARD_INFERENCE: job.data.model is not None,
        Task.CRITIC_INFERENCE: has_critic,
        Task.ACTOR_TRAINING: True,
        Task.CRITIC_TRAINING: has_critic,
    }
    return tuple(task for task, is_wanted in wanted.items() if is_wanted)
