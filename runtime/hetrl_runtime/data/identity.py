"""The identity of data: a digest of their contents, the same wherever they are.

Every byte counts, so that an edit of one row is found; the check of every row has read them anyway.
"""

import hashlib
import json
from pathlib import Path

from hetrl_core.job.identity import Value
from hetrl_core.job.spec import DataSpec
from hetrl_runtime.data.shards import shards

_DEFAULTS = DataSpec(prompts="")


def data_identity(data: DataSpec, where: Path) -> Value:
    """Return what tells a job's data apart.

    Args:
        data: what the job says of its data.
        where: the file on this machine, or the pattern of the shards.

    Raises:
        OSError: a file cannot be read.
    """
    fields = (data.question_field, data.answer_field)
    digest = hashlib.sha256()
    if fields != (_DEFAULTS.question_field, _DEFAULTS.answer_field):
        digest.update(f"{fields}\n".encode())
    words = (data.system_prompt, data.prompt_template, data.chat_template_arguments)
    if any(words):
        digest.update(f"{json.dumps(words)}\n".encode())
    for path in shards(where):
        with path.open("rb") as file:
            contents = hashlib.file_digest(file, "sha256")
        digest.update(f"{path.stat().st_size} {contents.hexdigest()}\n".encode())
    name = f"{data.dataset}/{data.prompts}" if data.dataset else data.prompts
    return Value(name=name, digest=digest.hexdigest())
