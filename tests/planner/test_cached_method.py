"""A cache of a method's results, which goes with its object."""

import gc
from weakref import ref

from hetrl_planner.problem.cached_method import cached_method


class Squares:
    def __init__(self) -> None:
        self.asked: list[int] = []

    @cached_method
    def of(self, number: int, *, sign: int = 1) -> int:
        self.asked.append(number)
        return sign * number**2


def test_results_are_computed_once_for_each_argument_and_object() -> None:
    one, other = Squares(), Squares()
    assert [one.of(2), one.of(2), one.of(3), other.of(2), one.of(2, sign=-1)] == [4, 4, 9, 4, -4]
    assert (one.asked, other.asked) == ([2, 3, 2], [2])


def test_object_is_freed_without_the_garbage_collector() -> None:
    gc.disable()
    try:
        squares = Squares()
        squares.of(2)
        gone = ref(squares)
        del squares
        assert gone() is None
    finally:
        gc.enable()


def test_method_of_a_temporary_object_can_be_called() -> None:
    assert Squares().of(2) == 4
