"""One policy version's work, in the numbers that the cost model computes with.

Made once from a job; what the job's author wrote, and where, no longer matters here.
"""

from dataclasses import dataclass

from hetrl_core.architecture import ModelArchitecture
from hetrl_core.job import Engine, JobSpec, Mode


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
    has_reference: bool
    """Whether a frozen reference model scores each trajectory, for the KL penalty."""

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
        has_reference=algorithm.kl_coefficient > 0,
        engine=job.engine,
    )
