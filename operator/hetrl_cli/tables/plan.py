"""A plan as tables: placement, prediction and bottleneck."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from hetrl_api.plan.ranges import compress
from hetrl_cli.tables.table import pairs, titled
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec, MaximiseThroughput
from hetrl_core.plan.plan import (
    REPLICATED,
    MemoryUse,
    Plan,
    Recompute,
    ReplicaGroup,
    Sharding,
    TrainingMode,
)
from hetrl_core.task import TRAINING_TASKS, Task
from hetrl_core.units import GIB, gib
from hetrl_planner.whatif.bottlenecks import Explanation

_TASK_WORDS = {
    Task.ACTOR_TRAINING: "train",
    Task.ACTOR_GENERATION: "generate",
    Task.REFERENCE_INFERENCE: "reference",
    Task.REWARD_INFERENCE: "reward",
    Task.CRITIC_INFERENCE: "critic",
    Task.CRITIC_TRAINING: "train critic",
}

_SMALLEST_SHOWN_BYTES = GIB // 20
_WHOLE_RATES_FROM = 1000.0

_MAX_RUNS = 4
"""Machine ranges shown of a group; the rest are counted."""


def show_plan(
    console: Console,
    plan: Plan,
    job: JobSpec,
    fleet: ClusterSnapshot,
    notes: Iterable[str],
    *,
    why: Explanation | None = None,
) -> None:
    """Print a plan as tables."""
    console.print(
        Group(
            _groups(plan, fleet),
            Text(),
            _expected(plan, job, fleet),
            *(_why(why, job) if why else ()),
            *_rejected(plan),
            *(Text(f"note: {each}", style="yellow") for each in notes),
        )
    )


def _groups(plan: Plan, fleet: ClusterSnapshot) -> Table:
    table = titled(
        "Who does what",
        *("task", "GPU", "region", "machines", "split", "memory per GPU"),
        figures=("replicas", "GPUs", "at once", "samples/s"),
    )
    for group in plan.groups:
        table.add_row(
            task_words(group),
            *gpus_and_regions(group),
            _machines(group),
            split(group),
            _memory(group.memory, _largest_memory_bytes(group, fleet)),
            str(len(group.replicas)),
            str(group.num_gpus),
            str(group.concurrency) if group.concurrency else "",
            rate(len(group.replicas) * group.samples_per_second),
        )
    return table


def _expected(plan: Plan, job: JobSpec, fleet: ClusterSnapshot) -> Table:
    expected = plan.prediction
    seconds = job.training.steps * expected.step_seconds
    rows = (
        (
            "step",
            f"{duration(expected.step_seconds)} "
            f"(generation {duration(expected.generation_seconds)}, "
            f"training {duration(expected.training_seconds)}, "
            f"weight sync {duration(expected.weight_sync_seconds)})",
        ),
        ("samples/s", rate(expected.samples_per_second)),
        ("all steps", f"{job.training.steps} in {duration(seconds)}"),
        (
            "price",
            f"{expected.dollars_per_hour:.2f} $/h, "
            f"{expected.dollars_per_hour * seconds / 3600:.2f} $ for all steps",
        ),
        (
            "staleness",
            f"{expected.mean_staleness:.2f} versions on average, "
            f"at most {job.algorithm.max_staleness}",
        ),
        ("binds", "; ".join(_binding(plan, job, fleet))),
        ("gap to bound", "not known" if plan.gap is None else f"{100 * plan.gap:.2f} %"),
    )
    return pairs("What to expect", rows)


def _binding(plan: Plan, job: JobSpec, fleet: ClusterSnapshot) -> list[str]:
    found = [plan.prediction.bottleneck]
    budget = job.resources.budget_dollars_per_hour
    if budget is not None:
        found.append(f"budget: {plan.prediction.dollars_per_hour:.2f} of {budget:.2f} $/h")
    most = job.resources.max_gpus
    found.append(
        f"GPUs: {plan.num_gpus} of {fleet.num_gpus}" + (f", at most {most}" if most else "")
    )
    return found


def show_frontier(console: Console, plans: Sequence[Plan]) -> None:
    """Print what each budget buys, the cheapest first."""
    table = Table(title="What each budget buys", title_justify="left", box=None)
    for name in ("$/h", "samples/s", "$ for 1,000 samples", "step", "GPUs"):
        table.add_column(name, justify="right")
    for name in ("trains", "generates"):
        table.add_column(name, overflow="fold")
    for plan in plans:
        expected = plan.prediction
        each_dollars = expected.dollars_per_hour / 3600 / expected.samples_per_second
        table.add_row(
            f"{expected.dollars_per_hour:.2f}",
            rate(expected.samples_per_second),
            f"{1000 * each_dollars:.3f}",
            duration(expected.step_seconds),
            str(plan.num_gpus),
            _kinds(each for each in plan.groups if TRAINING_TASKS.intersection(each.tasks)),
            _kinds(plan.groups_with(Task.ACTOR_GENERATION)),
        )
    console.print(table)


def _kinds(groups: Iterable[ReplicaGroup]) -> str:
    counts: Counter[str] = Counter()
    for group in groups:
        stages = group.stage_sites or ((group.gpu_kind, group.region),) * len(
            group.parallelism.stage_layers
        )
        for kind, _ in stages:
            counts[kind] += len(group.replicas) * group.parallelism.tensor
    return " + ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))


def _why(why: Explanation, job: JobSpec) -> list[Table | Text]:
    rows = [
        *((_words(tasks), f"busy {100 * share:.0f} % of a step") for tasks, share in why.busy),
        *((each.of, f"worth at most {100 * each.share:.1f} %") for each in why.worth),
    ]
    if why.bound is not None:
        is_pace = isinstance(job.planning.objective, MaximiseThroughput)
        bound = f"{duration(why.bound)} a step" if is_pace else f"{why.bound:.2f} $/h"
        rows.append(("no plan passes", f"{bound}, even if GPUs could be shared at will"))
    return [Text(), pairs("Why", rows)]


def _rejected(plan: Plan) -> list[Table | Text]:
    if not plan.rejected:
        return []
    table = Table(title="Other plans", title_justify="left", box=None, show_header=False)
    for each in plan.rejected:
        table.add_row(each.summary, each.reason)
    return [Text(), table]


def _machines(group: ReplicaGroup) -> str:
    names = dict.fromkeys(share.machine for each in group.replicas for share in each.shares)
    runs = [run.pattern for run in compress(names)]
    more = f" and {len(runs) - _MAX_RUNS} more ranges" if len(runs) > _MAX_RUNS else ""
    return ", ".join(runs[:_MAX_RUNS]) + more


def task_words(group: ReplicaGroup) -> str:
    """Name the tasks of a group."""
    return _words(group.tasks)


def _words(tasks: Iterable[Task]) -> str:
    return " + ".join(_TASK_WORDS.get(task, task.value) for task in tasks)


def gpus_and_regions(group: ReplicaGroup) -> tuple[str, str]:
    """Name the GPUs of a group, and where they are, in the order of its stages."""
    sites = _stage_sites(group)
    return _runs(kind for kind, _ in sites), _runs(region for _, region in sites)


def split(group: ReplicaGroup) -> str:
    """Describe the split of a group's replicas."""
    stages = group.parallelism.stage_layers
    layers = f" ({'+'.join(str(each) for each in stages)} layers)" if len(stages) > 1 else ""
    return f"{group.parallelism}{layers}{_mode(group.training_mode)}"


def _mode(mode: TrainingMode | None) -> str:
    """Say how training departs from replicas that hold all and recompute all."""
    if mode is None or mode == REPLICATED:
        return ""
    said = {Sharding.OPTIMIZER: ["optimizer sharded"], Sharding.FULL: ["fully sharded"]}
    kept = ["activations kept"] if mode.recompute is Recompute.NONE else []
    return "; " + ", ".join([*said.get(mode.sharding, []), *kept])


def _stage_sites(group: ReplicaGroup) -> tuple[tuple[str, str], ...]:
    return group.stage_sites or ((group.gpu_kind, group.region),)


def _runs(names: Iterable[str]) -> str:
    """Name what stages are on, first to last, like neighbours once."""
    return " → ".join(name for name, _ in groupby(names))


def _largest_memory_bytes(group: ReplicaGroup, fleet: ClusterSnapshot) -> int:
    """Return the memory of the fullest GPU's kind: of stages on several, the largest."""
    kinds = {group.gpu_kind, *(kind for kind, _ in group.stage_sites)}
    return max(fleet.kind(kind).memory_bytes for kind in kinds)


def _memory(use: MemoryUse, memory_bytes: int) -> str:
    parts = {
        "weights": use.weights_bytes,
        "gradients": use.gradients_bytes,
        "optimizer": use.optimizer_bytes,
        "activations": use.activations_bytes,
        "KV": use.kv_cache_bytes,
        "overhead": use.overhead_bytes,
    }
    said = ", ".join(
        f"{name} {part / GIB:.1f}" for name, part in parts.items() if part >= _SMALLEST_SHOWN_BYTES
    )
    return f"{use.total_bytes / GIB:.1f} of {gib(memory_bytes)}: {said}"


def rate(per_second: float) -> str:
    """Say a rate with two decimals, or whole where it has thousands."""
    return f"{per_second:,.0f}" if per_second >= _WHOLE_RATES_FROM else f"{per_second:.2f}"


def duration(seconds: float) -> str:
    """Say a time in the largest unit that leaves a number above one."""
    if seconds < 1:
        return f"{1e3 * seconds:.1f} ms"
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.2f} s"
