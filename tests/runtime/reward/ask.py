"""Puts groups of attempts through confined code, and prints their numbers as JSON.

    python ask.py CODE KIND GROUP...

KIND says what to take from this process first: ``plain`` nothing, ``old`` the kernel's
Landlock, ``bare`` Landlock and all capabilities. The tests run it in a process of its own,
for none of this can be undone.
"""

import asyncio
import json
import platform
import runpy
import struct
import sys

from hetrl_core.job.reward import PythonReward
from hetrl_runtime.reward.confinement import kernel
from hetrl_runtime.reward.confinement.code import ConfinedCode
from hetrl_runtime.reward.verdict import Response, Unjudged

# Classic BPF: Landlock's first call does not exist, every other call is allowed.
WITHOUT_LANDLOCK = b"".join(
    struct.pack("HBBI", *step)
    for step in ((0x20, 0, 0, 0), (0x15, 0, 1, 444), (6, 0, 0, 0x50026), (6, 0, 0, 0x7FFF0000))
)


async def main(code: str, groups: list[str]) -> dict[str, dict[str, float | str]]:
    """Return the numbers by group and attempt."""
    found: dict[str, dict[str, float | str]] = {}
    attempts = runpy.run_path(code)
    reward = PythonReward(file=code, timeout_seconds=60, cpu_seconds=60)
    async with ConfinedCode(reward) as confined:
        for group in groups:
            found[group] = {name: await ask(confined, group, name) for name in attempts[group]}
    return found


async def ask(confined: ConfinedCode, group: str, name: str) -> float | str:
    """Return the number of an attempt, or why there is none."""
    verdict = await confined.score(Response(text=group, reference=name))
    return str(verdict) if isinstance(verdict, Unjudged) else verdict


if __name__ == "__main__":
    _, code, kind, *groups = sys.argv
    if kind == "bare":
        kernel.keep_capabilities(platform.machine())
    if kind != "plain":
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        kernel.install_filter(WITHOUT_LANDLOCK)
    print(json.dumps(asyncio.run(main(code, groups))))
