"""The check of a job's rows in a process of its own, which has the model's tokenizer.

The coordinator stays free for its calls, and small. ``rollout.prompt_checks`` is the process.
"""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import AsyncIterator

from pydantic import TypeAdapter

from hetrl_core import launch as contract
from hetrl_core.launch import Launch
from hetrl_runtime.data.left_out import LeftOutPrompt

log = logging.getLogger(__name__)

# A tokenizer needs no torch, whose import would take longer than most checks.
_PROGRAM = (
    "import sys; sys.modules['torch'] = None; "
    "from hetrl_runtime.rollout.prompt_checks import main; main()"
)
_PROMPT = TypeAdapter(LeftOutPrompt)


async def left_out_prompts(launch: Launch) -> AsyncIterator[LeftOutPrompt]:
    """Yield the prompts that cannot be used; leaving early ends the process.

    Raises:
        OSError: the process cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _PROGRAM,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "TRANSFORMERS_VERBOSITY": "error"},
    )
    assert process.stdin
    assert process.stdout
    try:
        process.stdin.write(contract.to_json(launch).encode())
        process.stdin.close()
        async for line in process.stdout:
            yield _PROMPT.validate_json(line)
        if code := await process.wait():
            log.warning("rows not checked: the check ended with %d", code)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
