"""A cache of a method's results that is freed with its object."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar, cast
from weakref import proxy

Method = TypeVar("Method", bound=Callable[..., Any])


class _CachedMethod:
    """A descriptor that puts a cached function into the object when it is first read."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Callable[..., Any]:
        # A reference from the cache to its object would keep both until the garbage collector runs.
        cached = cache(partial(self._method, proxy(instance)))
        vars(instance)[self._name] = cached
        return partial(_call_with, instance, cached)


def _call_with(_: object, cached: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Keep an object until the end of a call: it may be a temporary value."""
    return cached(*args, **kwargs)


def cached_method(method: Method) -> Method:
    """Cache a method's results by its arguments, which must be hashable, in each object.

    ``functools.cache`` alone would keep every object as long as the class.
    """
    return cast("Method", _CachedMethod(method))
