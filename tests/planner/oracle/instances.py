"""Random fleets and jobs that the oracle can exhaust: 2 to 5 GPUs, models of 2 to 4 layers.

GPUs are the catalogue's, their figures changed by up to a third; hidden sizes are drawn so that
memory binds in some instances and not in others. Links go from a fast network to a slow line
between continents. Equal seeds draw equal instances.
"""

from dataclasses import dataclass, replace

import numpy as np

from hetrl_core.fleet.snapshot import ClusterSnapshot, GpuKind, Link, Machine
from hetrl_core.job.architecture import ModelArchitecture
from hetrl_core.job.spec import Engine
from hetrl_core.task import Task
from hetrl_planner.layout.devices import Devices
from hetrl_planner.problem.sites import sites
from hetrl_planner.problem.workload import Workload
from tests.builders import a_job, a_kind

KINDS = ("T4", "A10G", "L4", "A30", "L40S", "A40", "V100-32GB", "A100-40GB")

TASKS = {
    "GRPO": (
        Task.ACTOR_GENERATION,
        Task.REFERENCE_INFERENCE,
        Task.REWARD_INFERENCE,
        Task.ACTOR_TRAINING,
    ),
    "PPO": tuple(Task),
}
"""As HetRL counts them: rewards come from a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One fleet and one job."""

    seed: int
    snapshot: ClusterSnapshot
    work: Workload

    @property
    def devices(self) -> Devices:
        """The fleet's GPUs by number."""
        return Devices(snapshot=self.snapshot, sites=sites(self.snapshot, a_job().resources))

    @property
    def name(self) -> str:
        """Say the instance in a line."""
        machines = ", ".join(
            f"{machine.num_gpus} {machine.gpu_kind} in {machine.region}"
            for machine in self.snapshot.machines
        )
        model = self.work.architecture
        return (
            f"{machines}; {model.num_parameters / 1e9:.1f}B in {model.num_layers} layers, "
            f"{model.num_query_heads} heads; {len(self.work.tasks)} tasks, "
            f"{'sync' if self.work.is_synchronous else 'async'}"
        )


def instance(seed: int, *, algorithm: str, is_synchronous: bool, max_gpus: int = 5) -> Instance:
    """Return the instance of a seed."""
    rng = np.random.default_rng(seed)
    return Instance(
        seed=seed,
        snapshot=_fleet(rng, max_gpus=max_gpus),
        work=_work(rng, tasks=TASKS[algorithm], is_synchronous=is_synchronous),
    )


def _fleet(rng: np.random.Generator, *, max_gpus: int) -> ClusterSnapshot:
    num_gpus = int(rng.integers(2, max_gpus + 1))
    names = rng.choice(KINDS, size=min(num_gpus, int(rng.integers(2, 5))), replace=False).tolist()
    regions = [f"r{number}" for number in range(int(rng.integers(1, 4)))]
    sizes = _machine_sizes(rng, num_gpus, at_least=len(names))
    machines = tuple(
        Machine(
            name=f"m{number}",
            gpu_kind=names[number] if number < len(names) else str(rng.choice(names)),
            num_gpus=size,
            region=str(rng.choice(regions)),
        )
        for number, size in enumerate(sizes)
    )
    return ClusterSnapshot(
        gpu_kinds=tuple(_varied(rng, a_kind(name)) for name in names),
        machines=machines,
        links=tuple(
            _link(rng, source, target)
            for number, source in enumerate(regions)
            for target in regions[number:]
        ),
    )


def _machine_sizes(rng: np.random.Generator, num_gpus: int, *, at_least: int) -> list[int]:
    sizes = [1] * at_least
    for _ in range(num_gpus - at_least):
        number = int(rng.integers(len(sizes) + 1))
        if number == len(sizes):
            sizes.append(1)
        else:
            sizes[number] += 1
    return sizes


def _varied(rng: np.random.Generator, kind: GpuKind) -> GpuKind:
    flops, hbm, intra = rng.uniform(2 / 3, 4 / 3, size=3)
    return replace(
        kind,
        bf16_flops=kind.bf16_flops * flops,
        hbm_bytes_per_second=kind.hbm_bytes_per_second * hbm,
        intra_node_bytes_per_second=kind.intra_node_bytes_per_second * intra,
    )


def _link(rng: np.random.Generator, source: str, target: str) -> Link:
    near = source == target
    return Link(
        source=source,
        target=target,
        bytes_per_second=float(10 ** (rng.uniform(9.0, 10.5) if near else rng.uniform(7.5, 9.5))),
        latency_seconds=float(10 ** (rng.uniform(-5, -4) if near else rng.uniform(-3, -1))),
    )


def _work(rng: np.random.Generator, *, tasks: tuple[Task, ...], is_synchronous: bool) -> Workload:
    heads = int(rng.choice([2, 4, 8]))
    hidden = 256 * round(10 ** rng.uniform(0.7, 1.45))
    model = ModelArchitecture(
        hidden_size=hidden,
        num_layers=int(rng.integers(2, 5)),
        num_query_heads=heads,
        num_kv_heads=int(rng.choice([each for each in (1, 2, 4) if heads % each == 0])),
        head_dim=128,
        ffn_size=4 * hidden,
        vocab_size=int(rng.choice([8_000, 32_000, 128_000])),
        tied_embeddings=bool(rng.integers(2)),
    )
    prompt, response = int(rng.choice([128, 512, 2048])), int(rng.choice([256, 1024, 4096]))
    longest = response if rng.integers(2) else 2 * response
    return Workload(
        architecture=model,
        prompt_tokens=prompt // 2,
        response_tokens=response,
        max_prompt_tokens=prompt,
        max_response_tokens=longest,
        batch_size=int(rng.choice([16, 64, 256])),
        group_size=8,
        minibatches=int(rng.choice([1, 1, 2, 4])),
        max_staleness=0 if is_synchronous else int(rng.integers(1, 5)),
        is_synchronous=is_synchronous,
        tasks=tasks,
        engine=Engine.VLLM,
    )
