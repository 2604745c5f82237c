"""Parquet files of prompts, as Hugging Face ships data sets: one file, or the shards of a split.

Only the columns that are needed are read, one row group at a time, and a few row groups are kept:
data may be larger than memory. Every row is checked once, so that a bad one is known before any GPU
is.
"""

import bisect
from collections import OrderedDict
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from hetrl_runtime.data.prompt import Fields, Prompt, Unusable, prompt_of

_KEPT_BYTES = 256 << 20
"""Of row groups that stay in memory: shuffled prompts come from all of them."""


class ParquetPrompts:
    """The prompts of checked shards, by index over all of them."""

    def __init__(self, shards: Sequence[Path], fields: Fields) -> None:
        """Open the shards.

        Raises:
            OSError, ValueError: one is not there, or not Parquet.
        """
        self._fields = fields
        self._files = [pyarrow.parquet.ParquetFile(each) for each in shards]
        self._paths = shards
        self._groups = [
            (number, group)
            for number, file in enumerate(self._files)
            for group in range(file.metadata.num_row_groups)
        ]
        self._ends = list(accumulate(self._num_rows(*each) for each in self._groups))
        self._kept: OrderedDict[int, Any] = OrderedDict()

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> Prompt:
        found = self._read(index)
        if isinstance(found, Unusable):
            raise OSError(f"the data changed while it was in use: {found.message}")
        return found

    def close(self) -> None:
        """Close the files."""
        for each in self._files:
            each.close()

    def fault(self) -> Unusable | None:
        """Check every row in turn; return the fault of the first bad one."""
        for path, file in zip(self._paths, self._files, strict=True):
            names = file.schema_arrow.names
            for name in (self._fields.question, self._fields.answer):
                if name not in names and name.partition(".")[0] not in names:
                    return Unusable(
                        message=f"{path}: has no column {name!r}; its columns are "
                        f"{', '.join(names)}: set spec.data.questionField, answerField or format"
                    )
        for number in range(len(self._groups)):
            table, first_row = self._group(number)
            for row, record in enumerate(table.to_pylist(), start=first_row + 1):
                found = self._prompt(record, number, row)
                if isinstance(found, Unusable):
                    return found
        return None

    def _read(self, index: int) -> Prompt | Unusable:
        number = bisect.bisect_right(self._ends, index)
        table, first_row = self._group(number)
        row = index - (self._ends[number - 1] if number else 0)
        record = {name: table[name][row].as_py() for name in table.column_names}
        return self._prompt(record, number, first_row + row + 1)

    def _prompt(self, record: dict[str, Any], number: int, row: int) -> Prompt | Unusable:
        place = f"{self._paths[self._groups[number][0]]}, row {row}"
        return prompt_of(record, self._fields, place=place, number=row)

    def _group(self, number: int) -> tuple[Any, int]:
        """Return a row group's table, and how many rows of its file come before it."""
        if number not in self._kept:
            file, group = self._groups[number]
            needed = (
                None if self._fields.keeps_others else [self._fields.question, self._fields.answer]
            )
            table = self._files[file].read_row_group(group, columns=needed)
            before = sum(self._num_rows(file, each) for each in range(group))
            self._kept[number] = (table, before)
            self._forget()
        self._kept.move_to_end(number)
        found: tuple[Any, int] = self._kept[number]
        return found

    def _num_rows(self, file: int, group: int) -> int:
        return int(self._files[file].metadata.row_group(group).num_rows)

    def _forget(self) -> None:
        """Drop the row groups that were used longest ago, but the last."""
        while len(self._kept) > 1 and sum(t.nbytes for t, _ in self._kept.values()) > _KEPT_BYTES:
            self._kept.popitem(last=False)


def open_parquet(shards: Sequence[Path], fields: Fields) -> ParquetPrompts | Unusable:
    """Check shards from end to end and return their prompts, or what is wrong with them.

    Raises:
        OSError: one cannot be read.
    """
    try:
        prompts = ParquetPrompts(shards, fields)
    except pyarrow.ArrowInvalid as error:
        return Unusable(message=f"{shards[0]} or a shard beside it is not Parquet: {error}")
    fault = prompts.fault()
    if fault:
        prompts.close()
        return fault
    return prompts
