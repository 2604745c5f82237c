"""The identity of data: a digest of their contents, the same wherever they are.

Every byte counts, so that an edit of one row is found; the check of every row has read them anyway.
"""

import hashlib
import json
from pathlib import Path

from hetrl_core.job.identity import Value
from hetrl_core.job.spec import DataSpec, PromptSet
from hetrl_runtime.data.shards import shards

_DEFAULTS = DataSpec(prompts="")


def data_identity(data: DataSpec, found: DataSpec) -> Value:
    """Return what tells a job's data apart.

    Args:
        data: the data as the job names them.
        found: the same with their files on this machine.

    Raises:
        OSError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for each in found.prompt_sets:
        _add(digest, each)
    words = (data.system_prompt, data.prompt_template, data.chat_template_arguments)
    if any(words):
        digest.update(f"{json.dumps(words)}\n".encode())
    return Value(name=" + ".join(map(str, data.prompt_sets)), digest=digest.hexdigest())


def _add(digest: "hashlib._Hash", prompt_set: PromptSet) -> None:
    """Add the fields, weight and contents of a set; an only set of GSM8K's fields has just these.

    What is recorded of older checkpoints must stay the same.
    """
    fields = (prompt_set.question_field, prompt_set.answer_field)
    if prompt_set.name:
        digest.update(f"{(prompt_set.name, prompt_set.weight)}\n".encode())
    if fields != (_DEFAULTS.question_field, _DEFAULTS.answer_field):
        digest.update(f"{fields}\n".encode())
    for path in shards(Path(prompt_set.prompts)):
        with path.open("rb") as file:
            contents = hashlib.file_digest(file, "sha256")
        digest.update(f"{path.stat().st_size} {contents.hexdigest()}\n".encode())
