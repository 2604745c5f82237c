"""Which part of a response which policy version sampled, for people to see.

The record has the text and how many tokens each version sampled; where they meet in the
text follows from the model's tokenizer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from tokenizers import Tokenizer

from hetrl_core.job.spec import ModelFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Part of a response."""

    version: int
    """Of the policy that sampled it; -1 where a tool wrote it."""

    num_tokens: int
    text: str


class Splitter:
    """Splits responses with a model's tokenizer, as far as one is at hand."""

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        self._tokenizer = tokenizer

    @classmethod
    def of_model(cls, model: ModelFiles) -> "Splitter":
        """Return the splitter for a model; one of the hub is not fetched for it."""
        file = Path(model.source) / "tokenizer.json"
        found = Tokenizer.from_file(str(file)) if model.is_path and file.is_file() else None
        return cls(found)

    def split(self, text: str, version_tokens: Sequence[tuple[int, int]]) -> tuple[Span, ...]:
        """Return the spans of a response, in order.

        Where the text alone does not tell the border, the first span holds all of it.

        Args:
            text: the response.
            version_tokens: runs of (policy version, tokens that it sampled), -1 for a tool's.
        """
        borders = self._borders(text, [count for _, count in version_tokens])
        return tuple(
            Span(version=version, num_tokens=count, text=text[start:end])
            for (version, count), start, end in zip(
                version_tokens, [0, *borders], [*borders, len(text)], strict=True
            )
        )

    def _borders(self, text: str, counts: Sequence[int]) -> list[int]:
        """Return where each span but the last ends."""
        starts = [start for start, _ in self._encoded(text)]
        # The token that ended the response has no text.
        if len(counts) == 1 or len(starts) not in {sum(counts), sum(counts) - 1}:
            return [len(text)] * (len(counts) - 1)
        return [
            starts[index] if index < len(starts) else len(text)
            for index in list(accumulate(counts))[:-1]
        ]

    def _encoded(self, text: str) -> list[tuple[int, int]]:
        if self._tokenizer is None:
            return []
        found: list[tuple[int, int]] = self._tokenizer.encode(
            text, add_special_tokens=False
        ).offsets
        return found
