"""The file of the prompts that a run leaves out: a list for people, and memory over restarts."""

import json
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from hetrl_runtime.data.left_out import LeftOutPrompt

FILE = "left-out.jsonl"
_PROMPT = TypeAdapter(LeftOutPrompt)
_LIMIT = "max_prompt_tokens"


class LeftOutFile:
    """A line for each prompt, as found under one limit of ``data.maxPromptTokens``."""

    def __init__(self, folder: Path, *, max_prompt_tokens: int) -> None:
        self._path = folder / FILE
        self._max_prompt_tokens = max_prompt_tokens

    def read(self) -> tuple[LeftOutPrompt, ...]:
        """Return the prompts that earlier starts of this run have left out."""
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        return tuple(found for each in lines if (found := self._read_line(each)))

    def add(self, prompt: LeftOutPrompt) -> None:
        """Add a prompt."""
        line = {_LIMIT: self._max_prompt_tokens, **_PROMPT.dump_python(prompt, mode="json")}
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def _read_line(self, text: str) -> LeftOutPrompt | None:
        """Return the prompt of a line; None where a crash cut it, or under another limit."""
        try:
            line = json.loads(text)
            is_ours = line.pop(_LIMIT, None) == self._max_prompt_tokens
            return _PROMPT.validate_python(line) if is_ours else None
        except (ValueError, ValidationError, AttributeError):
            return None
