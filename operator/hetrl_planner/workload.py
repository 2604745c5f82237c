"""One policy version's work, in the numbers that the cost model computes with.

Made once from a job; what the job's author wrote, and where, no longer matters here.
"""

from dataclasses import dataclass

from hetrl_core.architecture import ModelArchitecture
from hetrl_core.job import AlgorithmSpec, AlgorithmType, Engine, JobSpec, Mode
from hetrl_core.task import Task


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

    minibatches: int
    """Optimizer steps per version."""

    max_staleness: int
    is_synchronous: bool
    tasks: tuple[Task, ...]
    """What an iteration consists of; all models have the actor's dimensions."""

    engine: Engine
    """What generates; not every engine splits a replica over several GPUs."""

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
        """Every task but generation: what turns a generated batch into new weights."""
        return tuple(task for task in self.tasks if task is not Task.ACTOR_GENERATION)

    @property
    def in_flight_limit(self) -> int:
        """Trajectories that may be generated at once without going stale on average.

        Admission allows ``(η + version + 1)·B`` since the start; while version ``v``
        trains, ``(v + 1)·B`` of them are consumed or being consumed, which leaves ``η·B``.
        A synchronous step generates one whole batch.
        """
        return self.batch_size * max(1, self.max_staleness)


def workload(job: JobSpec, architecture: ModelArchitecture) -> Workload:
    """Return the work that one policy version of a job is."""
    data, algorithm = job.data, job.algorithm
    return Workload(
        architecture=architecture,
        prompt_tokens=max(1, data.max_prompt_tokens // 2),
        response_tokens=data.expected_response_tokens,
        max_prompt_tokens=data.max_prompt_tokens,
        max_response_tokens=data.max_response_tokens,
        batch_size=algorithm.global_batch_size,
        minibatches=algorithm.minibatches,
        max_staleness=algorithm.max_staleness,
        is_synchronous=algorithm.mode is Mode.SYNC or algorithm.max_staleness == 0,
        tasks=tasks_of(algorithm),
        engine=job.engine,
    )


def tasks_of(algorithm: AlgorithmSpec) -> tuple[Task, ...]:
    """Return the tasks that need GPUs, in the order in which an iteration comes to them.

    Rewards are computed on CPUs. A reference scores only where its KL term counts.
    """
    has_critic = algorithm.type is AlgorithmType.PPO
    wanted = {
        Task.ACTOR_GENERATION: True,
        Task.REFERENCE_INFERENCE: algorithm.kl_coefficient > 0,
        Task.CRITIC_INFERENCE: has_critic,
        Task.ACTOR_TRAINING: True,
        Task.CRITIC_TRAINING: has_critic,
    }
    return tuple(task for task, is_wanted in wanted.items() if is_wanted)
