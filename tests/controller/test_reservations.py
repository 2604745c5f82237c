"""Reservations: never more GPUs promised than there are."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetrl_core.plan.plan import Plan
from hetrl_operator.planning.reservations import Reservations, gpus_by_machine, without
from tests.builders import a_fleet
from tests.controller.values import a_plan

CAPACITY = {"a100-0": 8, "a100-1": 8, "l4-0": 8, "l4-1": 4}


def test_plan_that_no_longer_fits_is_refused_with_reason() -> None:
    reservations = Reservations()
    assert reservations.reserve("first", a_plan(trainers=6), CAPACITY) == ""

    said = reservations.reserve("second", a_plan(trainers=3), CAPACITY)

    assert said == "a100-0 has 2 free GPUs, the plan needs 3 there"
    assert not reservations.holds("second")


def test_released_plan_makes_room() -> None:
    reservations = Reservations()
    reservations.reserve("first", a_plan(trainers=8), CAPACITY)

    assert reservations.release("first")

    assert reservations.reserve("second", a_plan(trainers=8), CAPACITY) == ""
    assert not reservations.release("first")


def test_claim_keeps_gpus_from_others_until_it_is_dropped() -> None:
    reservations = Reservations()
    assert reservations.claim("first", a_plan(trainers=8), CAPACITY) == ""
    assert reservations.claim("second", a_plan(trainers=1), CAPACITY)
    assert reservations.reserve("second", a_plan(trainers=1), CAPACITY)

    reservations.drop_claim("first")

    assert not reservations.holds("first")
    assert reservations.reserve("second", a_plan(trainers=1), CAPACITY) == ""


def test_claim_that_was_reserved_stays() -> None:
    reservations = Reservations()
    reservations.claim("job", a_plan(), CAPACITY)
    reservations.reserve("job", a_plan(), CAPACITY)

    reservations.drop_claim("job")

    assert reservations.holds_just("job", a_plan())


def test_claim_replaces_a_claim_and_no_reservation() -> None:
    reservations = Reservations()
    reservations.claim("job", a_plan(trainers=1), CAPACITY)
    reservations.claim("job", a_plan(trainers=2), CAPACITY)
    assert reservations.holds_just("job", a_plan(trainers=2))

    reservations.reserve("job", a_plan(trainers=2), CAPACITY)
    reservations.claim("job", a_plan(trainers=3), CAPACITY)
    assert reservations.holds_just("job", a_plan(trainers=2))


def test_plan_on_a_machine_that_is_gone_is_refused() -> None:
    assert "a100-9 has 0 free GPUs" in Reservations().conflict(
        "job", a_plan(machine="a100-9"), CAPACITY
    )


def test_gpus_held_by_others_are_taken_out_of_the_fleet() -> None:
    fleet = a_fleet(a100_80=16)

    free = without(fleet, Counter({"a100-80gb-0": 8, "a100-80gb-1": 3}))

    assert [(each.name, each.num_gpus) for each in free.machines] == [("a100-80gb-1", 5)]


@pytest.mark.parametrize(
    ("held", "asked", "equal"),
    [
        pytest.param(None, a_plan(), False, id="no reservation"),
        pytest.param(a_plan(trainers=2), a_plan(trainers=2), True, id="the same GPUs"),
        pytest.param(a_plan(trainers=2), a_plan(trainers=3), False, id="fewer GPUs"),
        pytest.param(a_plan(), a_plan(machine="a100-1"), False, id="another machine"),
    ],
)
def test_reservation_is_compared_with_a_plan(held: Plan | None, asked: Plan, equal: bool) -> None:
    reservations = Reservations()
    if held:
        reservations.reserve("job", held, CAPACITY)

    assert reservations.holds_just("job", asked) is equal


@pytest.mark.parametrize(
    ("second", "changes"),
    [
        pytest.param(a_plan(trainers=2), False, id="the same GPUs again"),
        pytest.param(a_plan(trainers=3), True, id="more GPUs"),
    ],
)
def test_version_changes_only_with_what_is_reserved(second: Plan, changes: bool) -> None:
    """Jobs that wait for GPUs are planned again when it changes."""
    reservations = Reservations()
    reservations.reserve("job", a_plan(trainers=2), CAPACITY)
    before = reservations.version

    reservations.reserve("job", second, CAPACITY)

    assert (reservations.version != before) is changes
    assert reservations.held_by("job") == gpus_by_machine(second)


def _plans() -> st.SearchStrategy[Plan]:
    machines = st.sampled_from(["a100-0", "a100-1"])
    rollouts = st.lists(st.sampled_from(["l4-0", "l4-1"]), min_size=1, max_size=5)
    return st.builds(
        lambda machine, trainers, places: a_plan(
            machine=machine, trainers=trainers, rollouts=tuple(places)
        ),
        machines,
        st.integers(1, 8),
        rollouts,
    )


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans(), _plans()), max_size=30))
@pytest.mark.slow
def test_job_sequences_promise_no_gpu_twice(steps: list[tuple[str, bool, Plan]]) -> None:
    reservations, held = Reservations(), dict[str, Plan]()

    for uid, stays, plan in steps:
        if not stays:
            reservations.release(uid)
            held.pop(uid, None)
        elif not reservations.reserve(uid, plan, CAPACITY):
            held[uid] = plan

    promised: Counter[str] = Counter()
    for plan in held.values():
        promised.update(gpus_by_machine(plan))
    assert promised == reservations.held_by_others("no-job")
    assert all(promised[machine] <= CAPACITY[machine] for machine in promised)
