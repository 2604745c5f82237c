"""Values for tests, with defaults: a test names only what it is about."""

from dataclasses import replace
from typing import Any

from hetrl_core.fleet.catalogue import catalogued
from hetrl_core.fleet.snapshot import ClusterSnapshot, GpuKind, Link, Machine
from hetrl_core.job.algorithm import AlgorithmSpec, Mode
from hetrl_core.job.architecture import ModelArchitecture
from hetrl_core.job.reward import Reward
from hetrl_core.job.spec import (
    DataSpec,
    Engine,
    JobSpec,
    ModelFiles,
    ModelSpec,
    Objective,
    PlanningSpec,
    PoolSpec,
    ResourcesSpec,
    RolloutSpec,
    Strategy,
    TrainingSpec,
)

# Dimensions from each model's published config.json.
ARCHITECTURES = {
    name: ModelArchitecture(
        hidden_size=hidden,
        num_layers=layers,
        num_query_heads=heads,
        num_kv_heads=kv,
        head_dim=128,
        ffn_size=ffn,
        vocab_size=vocab,
        tied_embeddings=tied,
        attention_bias=name.startswith("Qwen2.5"),
        query_key_norm=name.startswith("Qwen3"),
    )
    for name, hidden, layers, heads, kv, ffn, vocab, tied in [
        ("Qwen2.5-1.5B", 1536, 28, 12, 2, 8960, 151936, True),
        ("Qwen2.5-7B", 3584, 28, 28, 4, 18944, 152064, False),
        ("Qwen2.5-14B", 5120, 48, 40, 8, 13824, 152064, False),
        ("Qwen3-0.6B", 1024, 28, 16, 8, 3072, 151936, True),
        ("Qwen3-1.7B", 2048, 28, 16, 8, 6144, 151936, True),
        ("Qwen3-4B", 2560, 36, 32, 8, 9728, 151936, True),
        ("Qwen3-8B", 4096, 36, 32, 8, 12288, 151936, False),
        ("Qwen3-14B", 5120, 40, 40, 8, 17408, 151936, False),
        ("Llama-3.1-8B", 4096, 32, 32, 8, 14336, 128256, False),
        ("Qwen3-32B", 5120, 64, 64, 8, 25600, 151936, False),
    ]
}

KIND_NAMES = {"a100": "A100-40GB", "a100_80": "A100-80GB", "h100": "H100-80GB", "h800": "H800-80GB"}


def a_kind(name: str = "L4", **changes: Any) -> GpuKind:
    """A GPU kind of the catalogue, with some figures replaced."""
    kind = catalogued(name)
    assert kind, f"no GPU kind {name} in the catalogue"
    return replace(kind, **changes)


def a_fleet(
    *,
    gpus_per_machine: int = 8,
    region: str = "local",
    links: tuple[Link, ...] = (),
    kinds: tuple[GpuKind, ...] = (),
    **num_gpus: int,
) -> ClusterSnapshot:
    """A fleet of so many GPUs per kind: ``a_fleet(a100=24, l40s=24, l4=16)``.

    ``a100`` is the 40 GB part; other kinds by their lower-case catalogue name. The last
    machine of a kind holds what is left over.
    """
    found: dict[str, GpuKind] = {kind.name: kind for kind in kinds}
    machines: list[Machine] = []
    for word, total in num_gpus.items():
        name = KIND_NAMES.get(word, word.upper())
        found.setdefault(name, a_kind(name))
        machines += machines_of(name, total, gpus_per_machine=gpus_per_machine, region=region)
    return ClusterSnapshot(gpu_kinds=tuple(found.values()), machines=tuple(machines), links=links)


def machines_of(
    kind: str, num_gpus: int, *, gpus_per_machine: int = 8, region: str = "local", pool: str = ""
) -> list[Machine]:
    """Machines that hold so many GPUs of one kind together."""
    sizes = [gpus_per_machine] * (num_gpus // gpus_per_machine)
    if num_gpus % gpus_per_machine:
        sizes.append(num_gpus % gpus_per_machine)
    place = "" if region == "local" else f"{region}-"
    return [
        Machine(
            name=f"{place}{kind.lower()}-{number}",
            gpu_kind=kind,
            num_gpus=size,
            region=region,
            pool=pool,
        )
        for number, size in enumerate(sizes)
    ]


def both(*fleets: ClusterSnapshot, links: tuple[Link, ...] = ()) -> ClusterSnapshot:
    """Several fleets as one."""
    kinds = {kind.name: kind for fleet in fleets for kind in fleet.gpu_kinds}
    return ClusterSnapshot(
        gpu_kinds=tuple(kinds.values()),
        machines=tuple(machine for fleet in fleets for machine in fleet.machines),
        links=(*links, *(link for fleet in fleets for link in fleet.links)),
    )


def a_job(
    model: str = "Qwen3-1.7B",
    *,
    name: str = "math",
    steps: int = 100,
    mode: Mode = Mode.ASYNC,
    max_staleness: int | None = None,
    global_batch_size: int = 256,
    group_size: int = 8,
    max_prompt_tokens: int = 512,
    max_response_tokens: int = 1024,
    pools: tuple[PoolSpec, ...] = (),
    budget: float | None = None,
    max_gpus: int | None = None,
    rollout: RolloutSpec | None = None,
    objective: Objective | None = None,
    strategy: Strategy = Strategy.AUTO,
    seed: int = 1,
    engine: Engine = Engine.VLLM,
    architecture: ModelArchitecture | None = None,
    source: str | None = None,
    prompts: str = "train.jsonl",
    algorithm: AlgorithmSpec | None = None,
    has_reward_model: bool = False,
) -> JobSpec:
    """A GRPO job for one of the known models."""
    planning = PlanningSpec(strategy=strategy, seed=seed)
    bound = (0 if mode is Mode.SYNC else 2) if max_staleness is None else max_staleness
    return JobSpec(
        name=name,
        model=ModelSpec(
            source=source or f"models/{model}",
            architecture=architecture or ARCHITECTURES.get(model),
        ),
        algorithm=algorithm
        or AlgorithmSpec(
            mode=mode,
            max_staleness=bound,
            global_batch_size=global_batch_size,
            group_size=group_size,
        ),
        data=DataSpec(
            prompts=prompts,
            max_prompt_tokens=max_prompt_tokens,
            max_response_tokens=max_response_tokens,
            reward=Reward.MODEL if has_reward_model else Reward.MATH,
            model=ModelFiles(source="models/reward") if has_reward_model else None,
        ),
        training=TrainingSpec(steps=steps),
        resources=ResourcesSpec(pools=pools, budget_dollars_per_hour=budget, max_gpus=max_gpus),
        rollout=rollout or RolloutSpec(),
        planning=replace(planning, objective=objective) if objective else planning,
        engine=engine,
    )
