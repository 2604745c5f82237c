"""How a run goes on after numbers that are not finite, and beside an engine that does not match."""

import pytest

from hetrl_runtime.trainer.guards.engine_match import Comparison, EngineWatch, Limit
from hetrl_runtime.trainer.guards.not_finite import NotFiniteWatch, Skipped, Source, named
from hetrl_runtime.wire.trajectory import TrajectoryId
from hetrl_runtime.wire.values import Ending

IDS = [TrajectoryId(group=5, member=member) for member in range(20)]
LOSS = Skipped(source=Source.LOSS, rows=(0, 3))


def endings(steps: str, *, num_steps: int = 100) -> list[Ending | None]:
    """Return what a watch says of versions, each good (.) or with a skipped step (x)."""
    watch = NotFiniteWatch(num_steps=num_steps)
    return [
        watch.see((LOSS,) if step == "x" else (), version=version, ids=IDS)
        for version, step in enumerate(steps)
    ]


@pytest.mark.parametrize("source", [each for each in Source if each is not Source.WEIGHTS])
def test_watch_ends_the_run_after_three_skipped_versions(source):
    watch, skipped = NotFiniteWatch(num_steps=100), Skipped(source=source, rows=(0, 3))

    first, second, third = (
        watch.see((skipped,), version=version, ids=IDS) for version in (7, 8, 9)
    )

    assert first is second is None
    assert third.reason == "NotFinite"
    assert "3 versions in a row" in third.message
    assert f"of version 9 by its {source}, with 5/0, 5/3;" in third.message


def test_watch_begins_again_after_a_good_version():
    assert endings("xx.xx.x..xx") == [None] * 11


def test_watch_ends_a_run_that_has_fewer_steps_left():
    assert [bool(each) for each in endings("xx", num_steps=2)] == [False, True]
    assert endings("x.", num_steps=2) == [None, None]


def test_spoiled_weights_end_the_run_at_once():
    watch = NotFiniteWatch(num_steps=100)

    ending = watch.see((Skipped(source=Source.WEIGHTS),), version=4, ids=IDS)

    assert ending.reason == "NotFinite"
    assert ending.message.startswith("weights were not finite after the step of version 4;")


def test_watch_is_alarmed_until_a_good_version():
    watch = NotFiniteWatch(num_steps=100)
    alarms = []
    for skipped in ((), (LOSS,), (LOSS,), ()):
        watch.see(skipped, version=1, ids=IDS)
        alarms.append(watch.is_alarmed)

    assert alarms == [False, True, True, False]


def test_named_trajectories_are_few():
    many = Skipped(source=Source.GRADIENT, rows=tuple(range(20)))

    assert named(many, IDS) == "5/0, 5/1, 5/2, 5/3, 5/4, 5/5, 5/6, 5/7 and 12 more"
    assert named(LOSS, IDS) == "5/0, 5/3"


def compared(num_tokens: int, distance: float) -> Comparison:
    return Comparison(
        num_tokens=num_tokens,
        trainer_nats=-1.5 * num_tokens,
        engine_nats=-2.0 * num_tokens,
        difference_nats=distance * num_tokens,
    )


@pytest.mark.parametrize(
    ("limit", "distance", "is_ended"),
    [
        (Limit.FLOAT32, 0.009, False),
        (Limit.FLOAT32, 0.011, True),
        (Limit.BFLOAT16, 0.29, False),
        (Limit.BFLOAT16, 0.31, True),
        (Limit.BFLOAT16, 4.7, True),
    ],
)
def test_engine_watch_judges_by_precision(limit, distance, is_ended):
    ending = EngineWatch(limit).see(compared(2000, distance))

    assert bool(ending) is is_ended


def test_engine_watch_waits_for_two_thousand_tokens():
    watch = EngineWatch(Limit.FLOAT32)

    assert [bool(watch.see(compared(500, 4.7))) for _ in range(4)] == [False, False, False, True]


def test_engine_watch_forgets_what_it_has_judged():
    watch = EngineWatch(Limit.FLOAT32)
    for _ in range(10):
        assert watch.see(compared(2000, 0.001)) is None

    assert watch.see(compared(2000, 0.03))


def test_engine_mismatch_says_both_numbers():
    ending = EngineWatch(Limit.BFLOAT16).see(compared(2500, 4.7))

    assert ending.reason == "EngineMismatch"
    assert ending.message.startswith(
        "trainer and engine differ by 4.7 nats a token under the same weights (mean "
        "log-probability -1.5 and -2, over 2500 tokens), more than the 0.3 of bfloat16"
    )
