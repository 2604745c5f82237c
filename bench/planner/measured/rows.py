"""Published measurements: one case a row, numbers as their sources print them.

Values that a source omits are assumed here and listed on the page. Nothing is predicted here.
"""

from dataclasses import dataclass, replace

from bench.planner.measured.case import (
    Gain,
    InferredLength,
    Phases,
    Row,
    Run,
    Split,
    StepTime,
    Transfer,
)
from hetrl_core.fleet.catalogue import CATALOGUE
from hetrl_core.job.architecture import ModelArchitecture
from hetrl_core.job.spec import Engine
from hetrl_core.plan.plan import Recompute
from hetrl_core.task import Task
from hetrl_core.units import GIGA
from hetrl_planner.problem.workload import Workload
from tests.builders import ARCHITECTURES

# GPUs, links, models

_KINDS = {kind.name: kind for kind in CATALOGUE}
GB200 = replace(_KINDS["GB200"], dollars_per_hour=0.0)

NVLINK_RACK = 900 * GIGA
DGX_H100 = 8 * 50 * GIGA
"""Eight cards of 400 Gbit/s."""

ONE_CARD = 50 * GIGA
"""400 Gbit/s."""


def _model(
    hidden: int, layers: int, heads: int, ffn: int, vocab: int, *, query_key_norm: bool
) -> ModelArchitecture:
    return ModelArchitecture(
        hidden_size=hidden,
        num_layers=layers,
        num_query_heads=heads,
        num_kv_heads=8,
        head_dim=128,
        ffn_size=ffn,
        vocab_size=vocab,
        tied_embeddings=False,
        query_key_norm=query_key_norm,
    )


# Dimensions from each model's published config.json.
LLAMA_8B = _model(4096, 32, 32, 14336, 128256, query_key_norm=False)
QWEN3_32B = _model(5120, 64, 64, 25600, 151936, query_key_norm=True)
QWEN_7B = ARCHITECTURES["Qwen2.5-7B"]
QWEN_1_5B = ARCHITECTURES["Qwen2.5-1.5B"]

TRAINED = (Task.ACTOR_GENERATION, Task.ACTOR_TRAINING)
SCORED = (Task.ACTOR_GENERATION, Task.REFERENCE_INFERENCE, Task.ACTOR_TRAINING)


def _work(
    model: ModelArchitecture,
    tasks: tuple[Task, ...],
    *,
    prompt: int,
    response: int,
    most: int,
    batch: int,
    group: int,
    minibatches: int,
    staleness: int,
) -> Workload:
    return Workload(
        architecture=model,
        prompt_tokens=prompt,
        response_tokens=response,
        max_prompt_tokens=2 * prompt,
        max_response_tokens=most,
        batch_size=batch,
        group_size=group,
        minibatches=minibatches,
        max_staleness=staleness,
        is_synchronous=staleness == 0,
        tasks=tasks,
        engine=Engine.VLLM,
    )


# AReaL v0.3


def _areal(model: ModelArchitecture, nodes: int, *, stages: int, is_async: bool = True) -> Run:
    """Three GPUs of four generate; synchronously half of them, as v0.2's configurations have it."""
    gpus = 8 * nodes
    generating = gpus * 3 // 4 if is_async else gpus // 2
    return Run(
        kind=_KINDS["H800-80GB"],
        link_bytes_per_second=DGX_H100,
        work=_work(
            model,
            TRAINED,
            prompt=512,
            response=9216,
            most=27648,
            batch=512 * 16,
            group=16,
            minibatches=4,
            staleness=4 if is_async else 0,
        ),
        generation=Split(num_gpus=generating),
        training=Split(num_gpus=gpus - generating, stages=stages),
        recompute=Recompute.FULL,
        recomputes_cache=True,
    )


def _areal_rows() -> list[Row]:
    models = (("1.5B", QWEN_1_5B, 16, 2, 41.0, 14.8), ("7B", QWEN_7B, 24, 4, 57.7, 25.4))
    gains = [
        Row(
            source="AReaL",
            case=f"{name}, {nodes} nodes of 8 H800: synchronous over asynchronous",
            published=before / after,
            measured=Gain(
                slower=_areal(model, nodes, stages=stages, is_async=False),
                faster=_areal(model, nodes, stages=stages),
            ),
        )
        for name, model, nodes, stages, before, after in models
    ]
    interrupted = []
    for (name, model, _, stages, *_), published in zip(models, (1.12, 1.17), strict=True):
        faster = replace(_areal(model, 4, stages=stages), trainer_keeps_up=True)
        slower = replace(faster, is_interruptible=False)
        interrupted.append(
            Row(
                source="AReaL",
                case=f"{name}, 4 nodes: not interruptible over interruptible",
                published=published,
                measured=Gain(slower=slower, faster=faster),
            )
        )
    return gains + interrupted


# verl's fully asynchronous policy


def _verl(num_gpus: int, *, staleness: float | None, length: InferredLength | None) -> Run:
    """Qwen2.5-Math-7B on H20s: all GPUs in turn, or half of them for each side."""
    shares_gpus = staleness is None
    each = num_gpus if shares_gpus else num_gpus // 2
    return Run(
        kind=_KINDS["H20"],
        link_bytes_per_second=ONE_CARD,
        work=_work(
            QWEN_7B,
            TRAINED,
            prompt=150,
            response=2048,
            most=28 * 1024,
            batch=512 * 16,
            group=16,
            minibatches=16,
            staleness=1 if staleness else 0,
        ),
        generation=Split(num_gpus=each, tensor=4),
        training=Split(num_gpus=each),
        recompute=Recompute.FULL,
        shares_gpus=shares_gpus,
        length=length,
        has_proximal_pass=shares_gpus,
        streamed_parts=1 if shares_gpus else 4,
        ahead_share=staleness or None,
    )


VERL_LENGTH = InferredLength(
    run=_verl(32, staleness=None, length=None), training_seconds=269.80 + 107.71
)
"""No mean length is published: that which trains as long as the first row's `update_actor` and
`old_log_prob` together."""


def _verl_rows() -> list[Row]:
    colocated = {
        32: (790.10, Phases(generation=357.41, training=377.51)),
        64: (365.28, Phases(generation=150.72, training=203.67)),
        128: (356.30, Phases(generation=177.85, training=167.73)),
    }
    apart = {32: 294.77, 64: 189.26, 128: 150.63}
    rows = []
    for gpus, (seconds, phases) in colocated.items():
        run = _verl(gpus, staleness=None, length=VERL_LENGTH)
        rows.append(
            Row(
                source="verl",
                case=f"7B, {gpus} H20 in turn",
                published=seconds,
                measured=StepTime(run=run, phases=phases),
            )
        )
        rows.append(_verl_apart(gpus, 0.5, apart[gpus]))
    ablation = {0.0: 231.34, 0.1: 171.30, 0.3: 146.11}
    return rows + [_verl_apart(128, share, seconds) for share, seconds in ablation.items()]


def _verl_apart(gpus: int, staleness: float, seconds: float) -> Row:
    return Row(
        source="verl",
        case=f"7B, {gpus // 2} + {gpus // 2} H20, staleness {staleness:g}",
        published=seconds,
        measured=StepTime(run=_verl(gpus, staleness=staleness, length=VERL_LENGTH), is_played=True),
    )


# NeMo-RL's performance summary


@dataclass(frozen=True, slots=True)
class _Nemo:
    """A line of its tables."""

    version: str
    model: str
    is_async: bool
    response: int
    gpus: int
    serving_tensor: int
    training: tuple[int, int]
    """Tensor, pipeline."""

    tokens_per_second: float
    """A GPU, prompts included."""

    seconds: float
    kind: str = "H100-80GB"

    @property
    def prompt(self) -> int:
        """What the rate counts and the average length does not."""
        tokens = self.tokens_per_second * self.gpus * self.seconds / 2048
        return round(tokens) - self.response


NEMO = (
    _Nemo("v0.4", "Llama-3.1-8B", False, 1060, 16, 1, (1, 2), 1562, 97.7),
    _Nemo("v0.4", "Llama-3.1-8B", True, 1129, 16, 1, (1, 2), 2161, 74.6),
    _Nemo("v0.4", "Qwen3-32B", False, 3206, 32, 4, (4, 4), 540, 393),
    _Nemo("v0.4", "Qwen3-32B", True, 3207, 64, 4, (4, 4), 494, 215),
    _Nemo("v0.5", "Llama-3.1-8B", False, 1019, 16, 1, (1, 2), 1581, 92.8),
    _Nemo("v0.5", "Llama-3.1-8B", True, 1123, 16, 1, (1, 1), 2478, 64.8),
    _Nemo("v0.5", "Qwen3-32B", False, 3251, 32, 4, (4, 4), 571, 376),
    _Nemo("v0.5", "Qwen3-32B", True, 3252, 64, 4, (4, 4), 538, 200),
    _Nemo("v0.5", "Llama-3.1-8B", False, 1066, 8, 1, (1, 1), 3359, 91.0, "GB200"),
    _Nemo("v0.5", "Llama-3.1-8B", True, 1107, 8, 1, (1, 1), 4463, 71.1, "GB200"),
    _Nemo("v0.5", "Qwen3-32B", False, 3253, 16, 1, (2, 1), 1127, 381, "GB200"),
    _Nemo("v0.5", "Qwen3-32B", True, 3258, 32, 1, (2, 1), 1025, 210, "GB200"),
)


def _nemo_row(line: _Nemo) -> Row:
    is_llama, on_rack = line.model.startswith("Llama"), line.kind == "GB200"
    each = line.gpus // 2 if line.is_async else line.gpus
    run = Run(
        kind=GB200 if on_rack else _KINDS[line.kind],
        link_bytes_per_second=NVLINK_RACK if on_rack else DGX_H100,
        gpus_per_machine=4 if on_rack else 8,
        work=_work(
            LLAMA_8B if is_llama else QWEN3_32B,
            SCORED,
            prompt=line.prompt,
            response=line.response,
            most=4096 - line.prompt,
            batch=2048,
            group=32,
            minibatches=4,
            staleness=int(line.is_async),
        ),
        generation=Split(num_gpus=each, tensor=line.serving_tensor),
        training=Split(num_gpus=each, tensor=line.training[0], stages=line.training[1]),
        recompute=Recompute.FULL if is_llama else Recompute.NONE,
        shares_gpus=not line.is_async,
    )
    how = f"{each} + {each}" if line.is_async else str(line.gpus)
    return Row(
        source=f"NeMo-RL {line.version}",
        case=f"{line.model}, {how} {line.kind.removesuffix('-80GB')}"
        + (", one step off" if line.is_async else " in turn"),
        published=line.seconds,
        measured=StepTime(run=run),
    )


# verl's weight synchronisation


def _transfers() -> list[Row]:
    cases = (
        ("Qwen3-30B-A3B, 2 to 30 H100, NCCL", 30.53, 7.0),
        ("Qwen3-30B-A3B, 2 to 30 H100, Mooncake", 30.53, 5.93),
        ("Qwen3-30B-A3B, 16 to 16 H20", 30.53, 4.38),
        ("Qwen3-235B-A22B, 64 to 64 H20", 235.09, 23.70),
    )
    return [
        Row(
            source="verl",
            case=f"weights of {case}",
            published=seconds,
            measured=Transfer(size_bytes=2 * parameters * GIGA, link_bytes_per_second=ONE_CARD),
        )
        for case, parameters, seconds in cases
    ]


ROWS: tuple[Row, ...] = (
    *_areal_rows(),
    *_verl_rows(),
    *(_nemo_row(line) for line in NEMO),
    *_transfers(),
)
