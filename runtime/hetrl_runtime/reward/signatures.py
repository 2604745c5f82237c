"""Recognition of a reward function's form by its parameters, and the call in that form.

=========== ====================================================================================
form        parameters
=========== ====================================================================================
HetRL's     ``(response, answer)`` by position, whatever their names; more of them by name
verl's      ``(data_source, solution_str, ground_truth, extra_info)``, or some of them, by name
TRL's       ``(completions, **columns)``, each a list of one entry; returns a list of one reward
=========== ====================================================================================

By name a function gets ``prompt`` (or ``question``), ``reference`` (or ``ground_truth``), and every
column of the data; with ``**columns`` all of them.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any

from hetrl_runtime.reward.verdict import Response

Function = Callable[..., object]
Call = Callable[[Response], object]

_VERL = "solution_str"
_TRL = "completions"
_FORMS = (
    "(response, answer), (data_source, solution_str, ground_truth, extra_info) or "
    "(completions, **columns)"
)
_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class SignatureError(TypeError):
    """A function cannot be called as a reward function; the message says what it must take."""


def call_of(function: Function) -> Call:
    """Return how to call a reward function with a response.

    Raises:
        SignatureError: it takes no response, or is a coroutine.
    """
    name = getattr(function, "__name__", type(function).__name__)
    if inspect.iscoroutinefunction(function):
        raise SignatureError(f"{name} is a coroutine function: define it without `async`")
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # One of C, which does not say.
        return lambda response: function(response.text, response.reference)
    if _TRL in parameters:
        return lambda response: _one_of(function(**_named(parameters, _lists(response))))
    if _VERL in parameters:
        return lambda response: function(**_named(parameters, _verl_arguments(response)))
    by_position = [name for name, each in parameters.items() if each.kind in _BY_POSITION][:2]
    takes_any = any(each.kind is Parameter.VAR_POSITIONAL for each in parameters.values())
    if len(by_position) < 2 and not takes_any:  # noqa: PLR2004  # a response and an answer
        taken = ", ".join(parameters) or "nothing"
        raise SignatureError(f"{name} takes {taken}; a reward function takes {_FORMS}")
    others = {name: each for name, each in parameters.items() if name not in by_position}
    return lambda response: function(
        response.text,
        response.reference,
        **_named(others, _arguments(response), given=by_position),
    )


def _named(
    parameters: Mapping[str, Parameter], known: Mapping[str, Any], *, given: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the arguments that a function takes by name, but for those ``given`` by position.

    Raises:
        SignatureError: it needs one that there is not.
    """
    for name, each in parameters.items():
        is_named = each.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        if is_named and each.default is Parameter.empty and name not in known:
            raise SignatureError(
                f"the reward function needs {name!r}, which is no column of the data; "
                f"there are: {', '.join(known)}"
            )
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters.values()):
        return {name: value for name, value in known.items() if name not in given}
    return {name: value for name, value in known.items() if name in parameters}


def _arguments(response: Response) -> dict[str, Any]:
    """Return what a function may ask for by name, beside response and answer."""
    return {
        "question": response.prompt,
        "ground_truth": response.reference,
        **response.columns,
        "prompt": response.prompt,
        "reference": response.reference,
    }


def _verl_arguments(response: Response) -> dict[str, Any]:
    extra = response.columns.get("extra_info")
    return {
        **response.columns,
        "data_source": response.columns.get("data_source", ""),
        "solution_str": response.text,
        "ground_truth": response.reference,
        "extra_info": extra if isinstance(extra, Mapping) else dict(response.columns),
    }


def _lists(response: Response) -> dict[str, Any]:
    known = {"answer": response.reference, **_arguments(response)}
    known.pop("prompt")
    lists = {name: [value] for name, value in known.items()}
    return {**lists, "prompts": [response.prompt], _TRL: [response.text]}


def _one_of(rewards: object) -> object:
    """Return the only reward of a list.

    Raises:
        SignatureError: it has not one entry, or is no list.
    """
    item = getattr(rewards, "tolist", None)
    values = item() if callable(item) else rewards
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != 1:
        raise SignatureError(
            f"a function of `completions` must return a list with one reward for each, "
            f"here 1, it returned {values!r:.80}"
        )
    found: object = values[0]
    return found
