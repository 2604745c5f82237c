"""The comparison of a job after a sequence with one that was just created with its spec."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from e2e.faults.api import Json
from e2e.faults.snapshot import differences, snapshot
from e2e.sequences.lane import Lane, is_infeasible
from e2e.sequences.steps import Change, Step, Suspend
from hetrl_operator.model.labels import LEFT_OUT, REPLACED_AT, REPLACES

_PLANNING = ("resources.", "rollout.", "planning.", "training.steps")
"""Fields that a plan follows from, by their beginnings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of one sequence."""

    seed: int
    num_steps: int
    violations: tuple[str, ...]
    is_exact: bool
    """Whether plans could be compared as well."""


def judge(lane: Lane, number: int, steps: Sequence[Step]) -> Verdict:
    """Play a sequence in a lane, then a fresh job with the spec that it ended with."""
    try:
        lane.play(steps)
        disturbed = lane.settle()
        lane.renew(lane.spec())
        fresh = lane.settle()
        lane.life.delete()
    except TimeoutError as error:
        lane.clear()
        said = (f"never came to rest: {error}",)
        return Verdict(seed=number, num_steps=len(steps), violations=said, is_exact=False)
    exact = not (
        replanned_while_running(steps)
        or _took_over(disturbed["hetrlplans"])
        or is_infeasible(disturbed["hetrljobs"][0])
    )
    found = _violations(fresh, disturbed, exact=exact)
    return Verdict(seed=number, num_steps=len(steps), violations=tuple(found), is_exact=exact)


def _violations(
    fresh: dict[str, list[Json]], disturbed: dict[str, list[Json]], *, exact: bool
) -> list[str]:
    said = [is_infeasible(each["hetrljobs"][0]) for each in (fresh, disturbed)]
    if all(said):
        # What ran before such a spec was written runs on: there is no more to compare.
        return []
    if any(said):
        return [f"infeasible says {'the fresh job' if said[0] else 'the disturbed job'} alone"]
    return differences(_comparable(fresh, exact=exact), _comparable(disturbed, exact=exact))


def _took_over(plans: list[Json]) -> bool:
    """Tell whether the plan that is followed took another's place while the job ran."""
    notes = [each["metadata"].get("annotations", {}) for each in plans]
    return any(REPLACES in each and REPLACED_AT not in each for each in notes)


def replanned_while_running(steps: Sequence[Step]) -> bool:
    """Tell whether a plan may have been made for a job that ran: then its trainers stay.

    A fresh job of that spec may train on more or fewer GPUs: that is meant.
    """
    suspended = False
    for step in steps:
        match step:
            case Suspend(is_on=is_on):
                suspended = is_on
            case Change(field=name) if name.startswith(_PLANNING) and not suspended:
                return True
    return False


def _comparable(objects: dict[str, list[Json]], *, exact: bool) -> dict[str, str]:
    """Return the state but for names of machines and plans, and, unless exact, for plans."""
    objects = {**objects, "hetrlplans": _followed(objects["hetrlplans"])}
    names = _names(objects)
    found = {}
    for name, text in snapshot(objects).items():
        if not exact and not name.startswith(("hetrljobs/", "services/", "secrets/")):
            continue
        for old, new in names.items():
            text = text.replace(old, new)  # noqa: PLW2901
            name = name.replace(old, new)  # noqa: PLW2901
        found[name] = _reduced(text) if name.startswith("hetrljobs/") else text
    return found if exact else {k: _without_plan(v) for k, v in found.items()}


def _followed(plans: list[Json]) -> list[Json]:
    """Return the plans that are followed: a fresh job has no others."""
    found = []
    for each in plans:
        notes = each["metadata"].get("annotations", {})
        if REPLACED_AT not in notes:
            # The nodes that were away when it was made may be back.
            kept = {key: value for key, value in notes.items() if key != LEFT_OUT}
            found.append({**each, "metadata": {**each["metadata"], "annotations": kept}})
    return found


def _names(objects: dict[str, list[Json]]) -> dict[str, str]:
    """Return what stands for the names that a fresh job may have other ones of."""
    plans = {each["metadata"]["name"]: "PLAN" for each in objects["hetrlplans"]}
    keys = {
        each["metadata"].get("annotations", {}).get("hetrl.dev/plan-key", ""): "KEY"
        for each in objects["hetrlplans"]
    }
    nodes = {
        each["spec"]["nodeName"]: "NODE" for each in objects["pods"] if each["spec"].get("nodeName")
    }
    found = {**plans, **keys, **nodes}
    return {old: found[old] for old in sorted(found, key=len, reverse=True) if old}


def _reduced(text: str) -> str:
    """Leave out of a job what names its plan, and that it was suspended once."""
    found = json.loads(text)
    found["status"]["conditions"].pop("Suspended", None)
    plan = found["status"]["plan"] or {}
    found["status"]["plan"] = {k: v for k, v in plan.items() if k not in {"hash", "name"}}
    return json.dumps(found, sort_keys=True, indent=1)


def _without_plan(text: str) -> str:
    found = json.loads(text)
    if "status" in found:
        found["status"] = {k: found["status"][k] for k in ("phase", "conditions")}
    return json.dumps(found, sort_keys=True, indent=1)
