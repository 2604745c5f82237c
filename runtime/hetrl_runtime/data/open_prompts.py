"""Opening a job's prompts, whatever form they are in."""

import os
from pathlib import Path

from hetrl_runtime.data.jsonl import open_jsonl_shards
from hetrl_runtime.data.prompt import Fields, PromptSource, Unusable
from hetrl_runtime.data.shards import shards

_PARQUET = ".parquet"
_GSM8K = Fields()


def open_prompts(path: str | os.PathLike[str], fields: Fields = _GSM8K) -> PromptSource | Unusable:
    """Check data from end to end and return its prompts, or what is wrong with it.

    Args:
        path: a file of JSON lines, of a JSON array, CSV (``.csv``, ``.tsv``), each also compressed;
            a Parquet file (``.parquet``); or a pattern for shards, as ``shards`` finds them.
        fields: which fields hold problem and solution.
    """
    where = Path(path)
    try:
        found = _opened(where, fields)
    except OSError as error:
        return Unusable(message=f"cannot read prompts from {where}: {error.strerror or error}")
    if not isinstance(found, Unusable) and not len(found):
        found.close()
        return Unusable(message=f"{where} has no prompts: the file is empty")
    return found


def _opened(where: Path, fields: Fields) -> PromptSource | Unusable:
    files = shards(where)
    if not files:
        return Unusable(message=f"cannot read prompts from {where}: no file is named like that")
    if where.suffix.lower() != _PARQUET:
        return open_jsonl_shards(files, fields)
    # Imported at the first use: a run on JSON lines need not have it in memory.
    from hetrl_runtime.data.parquet import open_parquet  # noqa: PLC0415

    return open_parquet(files, fields)
