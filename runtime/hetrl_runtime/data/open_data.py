"""Opening all data sets of a job."""

from dataclasses import replace
from pathlib import Path

from hetrl_core.job.spec import DataSpec
from hetrl_runtime.data.mixture import Mixture, MixtureOrder, WeightedSet
from hetrl_runtime.data.open_prompts import open_prompts
from hetrl_runtime.data.order import PassOrder
from hetrl_runtime.data.prompt import Fields, PromptSource, Unusable


def open_data(data: DataSpec, *, keeps_others: bool | None = None) -> PromptSource | Unusable:
    """Check the data of a job from end to end and return the prompts, or what is wrong.

    Args:
        data: the job's data, whose files are on this machine.
        keeps_others: whether fields beside question and answer are read too; None: where the
            job's reward takes them.
    """
    opened: list[WeightedSet] = []
    for each in data.prompt_sets:
        fields = Fields.of(data, each)
        if keeps_others is not None:
            fields = replace(fields, keeps_others=keeps_others)
        found = open_prompts(Path(each.prompts), fields)
        if isinstance(found, Unusable):
            for other in opened:
                other.prompts.close()
            return found
        opened.append(WeightedSet(name=each.name, prompts=found, weight=each.weight))
    return Mixture(opened, source_field=data.source_field) if data.sets else opened[0].prompts


def order_of(prompts: PromptSource, *, seed: int) -> PassOrder | MixtureOrder:
    """Return the order in which a run takes prompts."""
    if not isinstance(prompts, Mixture):
        return PassOrder(num_prompts=len(prompts), seed=seed)
    return MixtureOrder(
        sizes=[len(each.prompts) for each in prompts.sets],
        weights=[each.weight for each in prompts.sets],
        seed=seed,
    )
