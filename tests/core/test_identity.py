from dataclasses import replace

import pytest

from hetrl_core.job.identity import FIELDS, Aspect, Value, differences, refusal

RECORDED = {
    Aspect.MODEL: Value(name="arithmetic/model", digest="a" * 64),
    Aspect.DATA: Value(name="train.jsonl", digest="b" * 64),
    Aspect.ALGORITHM: Value(name="GRPO"),
    Aspect.REWARD: Value(name="exact"),
    Aspect.SEED: Value(name="1"),
}


@pytest.mark.parametrize("aspect", Aspect)
def test_change_of_each_aspect_is_named_with_its_field(aspect):
    other = Value(name="other", digest="c" * 64 if RECORDED[aspect].digest else "")

    (found,) = differences(RECORDED, {**RECORDED, aspect: other})

    assert found.aspect is aspect
    said = refusal([found])
    assert f"{FIELDS[aspect]} has changed: recorded {RECORDED[aspect]}, now {other}." in said
    assert f"spec.storage.checkpoints.allowChanges: [{aspect}]" in said
    assert f"--allow-change {aspect.lower()}" in said


def test_values_of_the_same_contents_have_any_name():
    moved = replace(RECORDED[Aspect.MODEL], name="/mnt/elsewhere")

    assert differences(RECORDED, {**RECORDED, Aspect.MODEL: moved}) == ()


def test_values_of_other_contents_differ_under_one_name():
    edited = replace(RECORDED[Aspect.DATA], digest="c" * 64)

    assert len(differences(RECORDED, {**RECORDED, Aspect.DATA: edited})) == 1


@pytest.mark.parametrize("side", ["recorded", "present"])
def test_aspect_that_one_side_does_not_know_is_not_compared(side):
    others = {Aspect.SEED: Value(name="2")}
    pair = ({}, others) if side == "recorded" else (others, {})

    assert differences(*pair) == ()


def test_refusal_names_every_difference_and_one_remedy():
    present = {**RECORDED, Aspect.SEED: Value(name="2"), Aspect.REWARD: Value(name="math")}

    said = refusal(differences(RECORDED, present))

    assert "recorded exact, now math" in said
    assert "recorded 1, now 2" in said
    assert (
        "allowChanges: [Reward, Seed] (hetrl run: --allow-change reward --allow-change seed)"
        in said
    )
