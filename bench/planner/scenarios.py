"""Fleets and workloads of both papers, with the figures that the baselines are frozen at.

HetRL (arXiv 2512.12476): 64 GPUs in four networks, Qwen3 of three sizes, prompts and responses of
at most 1,024 tokens, 8 responses a prompt, 1,024 trajectories a step, all models of one size.
Ours, for the paper does not say: average lengths are half of the largest, a step has verl's four
minibatches, asynchronous runs may be one version behind, as all compared systems can.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hetrl_core.fleet.snapshot import ClusterSnapshot, GpuKind
from hetrl_core.job.spec import Engine, ResourcesSpec
from hetrl_core.task import Task
from hetrl_core.units import GIGA, MIB, TERA
from hetrl_planner.layout.devices import Devices
from hetrl_planner.presets.fleets import FLEETS
from hetrl_planner.problem.sites import sites
from hetrl_planner.problem.workload import Workload
from tests.builders import ARCHITECTURES

SCENARIOS = ("single-region", "multi-region-hybrid", "multi-country", "multi-continent")


def _kind(  # noqa: PLR0917 - a table's columns
    name: str, memory_mib: int, tflops: float, hbm: float, intra_node: float, dollars: float
) -> GpuKind:
    return GpuKind(
        name=name,
        memory_bytes=memory_mib * MIB,
        bf16_flops=tflops * TERA,
        hbm_bytes_per_second=hbm * GIGA,
        intra_node_bytes_per_second=intra_node * GIGA,
        dollars_per_hour=dollars,
        compute_efficiency=0.45,
        memory_efficiency=0.75,
    )


KINDS: Mapping[str, GpuKind] = {
    kind.name: kind
    for kind in (
        _kind("A100-40GB", 40960, 312, 1555, 300, 2.74),
        _kind("L40S", 46068, 362, 864, 32, 1.86),
        _kind("L4", 23034, 121, 300, 32, 0.80),
        _kind("H800-80GB", 81559, 989, 3350, 200, 5.28),
        _kind("H20", 97871, 148, 4000, 450, 2.00),
    )
}
"""The catalogue's figures, efficiencies and prices on the day the baselines were frozen."""

GRPO = (
    Task.ACTOR_GENERATION,
    Task.REFERENCE_INFERENCE,
    Task.REWARD_INFERENCE,
    Task.ACTOR_TRAINING,
)
PPO = tuple(Task)
ALGORITHMS: Mapping[str, tuple[Task, ...]] = {"PPO": PPO, "GRPO": GRPO}


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """One cell of HetRL's table."""

    scenario: str
    model: str
    algorithm: str
    is_synchronous: bool

    @property
    def mode(self) -> str:
        """``sync`` or ``async``."""
        return "sync" if self.is_synchronous else "async"

    def __str__(self) -> str:
        return f"{self.scenario} {self.model} {self.algorithm} {self.mode}"


HETRL_CASES = tuple(
    Case(scenario, model, algorithm, is_synchronous)
    for scenario in SCENARIOS
    for model in ("Qwen3-4B", "Qwen3-8B", "Qwen3-14B")
    for algorithm in ALGORITHMS
    for is_synchronous in (True, False)
)


def fleet(scenario: str) -> ClusterSnapshot:
    """Return one of HetRL's networks with the frozen figures."""
    return frozen(FLEETS[scenario]())


def frozen(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """Return a fleet with the frozen figures and prices of its kinds."""
    return replace(snapshot, gpu_kinds=tuple(KINDS[kind.name] for kind in snapshot.gpu_kinds))


def devices(snapshot: ClusterSnapshot) -> Devices:
    """Return a fleet's GPUs, all of which a job may use."""
    return Devices(snapshot=snapshot, sites=sites(snapshot, ResourcesSpec()))


def workload(
    model: str, *, tasks: tuple[Task, ...], is_synchronous: bool, max_tokens: int = 1024
) -> Workload:
    """Return one step's work as HetRL's paper has it."""
    return Workload(
        architecture=ARCHITECTURES[model],
        prompt_tokens=max_tokens // 2,
        response_tokens=max_tokens // 2,
        max_prompt_tokens=max_tokens,
        max_response_tokens=max_tokens,
        batch_size=1024,
        group_size=8,
        minibatches=4,
        max_staleness=0 if is_synchronous else 1,
        is_synchronous=is_synchronous,
        tasks=tasks,
        engine=Engine.VLLM,
    )


def work_of(case: Case) -> Workload:
    """Return one step's work of a cell."""
    return workload(
        case.model, tasks=ALGORITHMS[case.algorithm], is_synchronous=case.is_synchronous
    )
