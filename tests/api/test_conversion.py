from dataclasses import dataclass, field
from typing import Any

import pytest

from hetrl_api.conversion import from_core, shared_fields, to_core
from hetrl_api.validation.rules import ApiModel


class Inner(ApiModel):
    weight: float = 0.5


class Outer(ApiModel):
    name: str = "job"
    limit: int | None = None
    inner: Inner | None = None
    memory_mib: int = 2
    ours: str = "not in the core"


@dataclass(frozen=True, kw_only=True)
class CoreInner:
    weight: float


@dataclass(frozen=True, kw_only=True)
class CoreOuter:
    name: str
    limit: int = 8
    inner: CoreInner = field(default_factory=lambda: CoreInner(weight=1))
    memory_bytes: int


@pytest.mark.parametrize(
    ("model", "differing", "expected"),
    [
        (Outer(limit=3), {}, CoreOuter(name="job", limit=3, memory_bytes=9)),
        (Outer(), {}, CoreOuter(name="job", memory_bytes=9)),
        (
            Outer(inner=Inner()),
            {},
            CoreOuter(name="job", inner=CoreInner(weight=0.5), memory_bytes=9),
        ),
        (
            Outer(inner=Inner()),
            {"inner": CoreInner(weight=2)},
            CoreOuter(name="job", inner=CoreInner(weight=2), memory_bytes=9),
        ),
        (Outer(name="a"), {"name": "b"}, CoreOuter(name="b", memory_bytes=9)),
    ],
    ids=["equal names", "unset: the core's default", "a part", "a part given", "a field given"],
)
def test_conversion_carries_equal_names(
    model: Outer, differing: dict[str, Any], expected: CoreOuter
) -> None:
    assert to_core(CoreOuter, model, memory_bytes=9, **differing) == expected


@pytest.mark.parametrize(
    "differing", [{}, {"memory_bytes": 1, "color": "red"}], ids=["missing", "unknown"]
)
def test_conversion_refuses_missing_and_unknown_fields(differing: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        to_core(CoreOuter, Outer(), **differing)


def test_shared_fields_leave_out_unset_and_excluded() -> None:
    assert shared_fields(CoreOuter, Outer(limit=3), exclude={"name"}) == {"limit": 3}


@dataclass(frozen=True)
class CoreShape:
    sides: int

    @property
    def num_corners(self) -> int:
        return self.sides


class Shape(ApiModel):
    sides: int
    num_corners: int
    color: str = "red"


@pytest.mark.parametrize(
    ("differing", "expected"),
    [
        ({}, Shape(sides=4, num_corners=4)),
        ({"color": "blue"}, Shape(sides=4, num_corners=4, color="blue")),
        ({"sides": 3}, Shape(sides=3, num_corners=4)),
    ],
    ids=["equal names", "an additional field", "a field given"],
)
def test_conversion_from_core_carries_equal_names(
    differing: dict[str, Any], expected: Shape
) -> None:
    assert from_core(Shape, CoreShape(sides=4), **differing) == expected
