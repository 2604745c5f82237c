"""The title: step time, price, staleness, gap to the bound, and bottleneck."""

from hetrl_cli.picture.drawing.lettering import BODY, HEADING, TITLE, shortened, wrapped
from hetrl_cli.picture.drawing.shapes import Drawing, Label, Tone
from hetrl_cli.tables.plan import duration, rate
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import JobSpec
from hetrl_core.plan.plan import Plan

FIRST, LINE = 38.0, 20.0


def title(plan: Plan, snapshot: ClusterSnapshot, job: JobSpec, *, width: float) -> Drawing:
    """Draw the title in lines of a width, at the origin."""
    expected = plan.prediction
    head = (
        f"{job.name}: a step of {duration(expected.step_seconds)} "
        f"on {plan.num_gpus:,} of {snapshot.num_gpus:,} GPUs"
    )
    gap = "not known" if plan.gap is None else f"{100 * plan.gap:.1f} %"
    figures = (
        f"{rate(expected.samples_per_second)} samples/s · "
        f"{expected.dollars_per_hour:,.2f} $/h · "
        f"staleness {expected.mean_staleness:.2f} of at most {job.algorithm.max_staleness} · "
        f"gap to the bound {gap}"
    )
    binds = f"binds: {expected.bottleneck}"
    lines = [
        *((line, HEADING, Tone.INK) for line in wrapped(figures, HEADING, room=width)),
        *((line, BODY, Tone.QUIET) for line in wrapped(binds, BODY, room=width)),
    ]
    labels = [
        Label(at=(0, FIRST + number * LINE), text=text, size=size, ink=ink)
        for number, (text, size, ink) in enumerate(lines)
    ]
    name = shortened(head, TITLE, room=width, is_bold=True)
    first = Label(at=(0, LINE / 2), text=name, size=TITLE, is_bold=True)
    height = FIRST + len(lines) * LINE + LINE / 4
    return Drawing(width=width, height=height, labels=(first, *labels))
