"""Tool calls of a model and their results, in tokens.

A call is ``<tool_call>...</tool_call>``, as Qwen2.5, Qwen3 and the Hermes models write it: inside
is JSON with ``name`` and ``arguments``, or, where a job has one tool, just its argument. The end
mark must be one token of the model, so that an engine can stop there. The result goes back as the
chat template writes a message of role ``tool``; without a template, between ``<tool_response>``
and ``</tool_response>``.
"""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hetrl_core.job.spec import Tool
from hetrl_runtime.tools.tool import FUNCTIONS, Function

CALL, CALL_END = "<tool_call>", "</tool_call>"
RESULT, RESULT_END = "<tool_response>", "</tool_response>"

_CALLER = "(what the model wrote)"
"""Stands for an assistant's turn while a template is asked what comes after it."""


class ToolCalls:
    """The calls of one job, under one tokenizer."""

    def __init__(
        self,
        tokenizer: Any,
        tools: Sequence[Tool],
        template_arguments: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Look up the end mark. ``template_arguments`` go to the chat template.

        Raises:
            ValueError: the tokenizer does not have it as one token.
        """
        found = tokenizer.encode(CALL_END, add_special_tokens=False)
        if len(found) != 1 or found[0] == tokenizer.unk_token_id:
            raise ValueError(
                f"data.tools needs a model whose tokenizer has {CALL_END} as one token, as those "
                f"of Qwen2.5 and Qwen3 do; this one makes {len(found)} of it"
            )
        self._tokenizer = tokenizer
        self._template_arguments = template_arguments
        self._functions = {str(name): FUNCTIONS[name] for name in tools}
        self.end_token = int(found[0])

    def result_of(self, turn: Sequence[int]) -> tuple[int, ...]:
        """Return what follows a turn that ends in a call, in tokens: the result, or what is wrong.

        The model gets an error for a wrong call, and may try again; that costs it tokens.
        """
        text = str(self._tokenizer.decode(turn, skip_special_tokens=False))
        try:
            result = self._called(text)
        except ValueError as error:
            result = f"error: {error}"
        return tuple(self._tokenizer.encode(self._result_message(result), add_special_tokens=False))

    def name_of(self, turn: Sequence[int]) -> str:
        """Return which tool a turn that ends in a call names; ``unknown`` where it names none."""
        try:
            called, _ = self._read(
                _call_in(str(self._tokenizer.decode(turn, skip_special_tokens=False)))
            )
        except ValueError:
            return "unknown"
        return next(name for name, each in self._functions.items() if each is called)

    def _called(self, turn: str) -> str:
        function, argument = self._read(_call_in(turn))
        return function.run(argument)

    def _read(self, call: str) -> tuple[Function, str]:
        """Return the function that is called, and its argument."""
        if not call.startswith("{") and len(self._functions) == 1:
            return next(iter(self._functions.values())), call
        try:
            found = json.loads(call)
            function = self._functions[found["name"]]
            argument = found["arguments"][function.argument]
        except (ValueError, RecursionError, KeyError, TypeError):
            raise ValueError(
                'a call is {"name": ..., "arguments": {...}}, with one of '
                + "; ".join(f"{name}({each.argument})" for name, each in self._functions.items())
            ) from None
        return function, str(argument)

    def _result_message(self, result: str) -> str:
        if not self._tokenizer.chat_template:
            return f"{RESULT}{result}{RESULT_END}"
        conversation = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": _CALLER},
            {"role": "tool", "content": result},
        ]
        text = self._tokenizer.apply_chat_template(
            conversation,
            tools=self.schemas,
            tokenize=False,
            add_generation_prompt=True,
            **self._template_arguments,
        )
        return str(text).partition(_CALLER)[2]

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """The tools as chat templates describe them."""
        return [each.schema for each in self._functions.values()]


def _call_in(turn: str) -> str:
    before, mark, call = turn.removesuffix(CALL_END).rpartition(CALL)
    del before
    if not mark:
        raise ValueError(f"{CALL_END} without {CALL}")
    return call.strip()
