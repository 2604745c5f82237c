"""``make proof-walk``: types the quick start's commands, and writes how long each of them took."""

import asyncio
import re
import subprocess
import tempfile
from pathlib import Path

from bench.proof.walk.commands import commands
from bench.proof.walk.first_step import FirstStep
from bench.proof.walk.page import page
from bench.proof.walk.shell import Shell, Typed
from tests.dashboard.browser import chromium

QUICK_START = Path("docs/quick-start.md")
HEADING = "On a cluster without GPUs, on this machine"
PAGE, PICTURE = Path("docs/results/walk.md"), Path("docs/results/walk.png")


def main() -> None:
    """Walk, look at the curve, and write the page."""
    try:
        with Shell() as shell:
            typed, first_step_seconds = _walk(shell)
            said = "\n".join(line for each in typed for line in each.lines)
            (address,) = re.findall(r"http://127\.0\.0\.1:\d+", said)
            asyncio.run(_picture(address))
    finally:
        subprocess.run(["make", "-s", "cluster-down"], check=True)
    text = page(typed, first_step_seconds=first_step_seconds, picture=PICTURE.name)
    PAGE.write_text(text)
    print(text)


def _walk(shell: Shell) -> tuple[list[Typed], float | None]:
    typed, first = [], None
    for command in commands(QUICK_START.read_text(), HEADING):
        if first is None and command.startswith("hetrl submit"):
            (path,), (kubeconfig,) = (
                shell.enter(f"echo ${name}").lines for name in ("PATH", "KUBECONFIG")
            )
            first = FirstStep(path=path, kubeconfig=kubeconfig)
        typed.append(shell.enter(command))
    return typed, first.seconds if first else None


async def _picture(address: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with chromium(Path(folder)) as browser:
            await browser.look(width=1400, height=1700, dark=False)
            await browser.open(f"{address}/#board=job&span=all")
            await browser.wait("document.querySelector('#news.ended')?.innerText")
            await browser.picture(PICTURE)


if __name__ == "__main__":
    main()
