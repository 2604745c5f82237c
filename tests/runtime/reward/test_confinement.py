"""Confinement of reward code by a real kernel: each attempt is one system call."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hetrl_core.job.reward import PythonReward
from hetrl_runtime.reward.confinement import landlock
from hetrl_runtime.reward.confinement.code import ConfinedCode
from hetrl_runtime.reward.verdict import Response, Unjudged

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
needs_landlock = pytest.mark.skipif(not landlock.version(), reason="the kernel has no Landlock")


def asked(folder: Path, kind: str, *groups: str) -> dict[str, dict[str, float]]:
    (folder / "private.txt").write_text("private")
    (folder / "code").mkdir()
    code = folder / "code" / "attempts.py"
    code.write_text((HERE / "attempts.py").read_text())
    said = subprocess.run(
        [sys.executable, HERE / "ask.py", code, kind, *groups],
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, dict[str, float]] = json.loads(said.stdout)
    return found


def went_through(found: dict[str, float]) -> list[str]:
    return [name for name, number in found.items() if number == 0]


@pytest.mark.parametrize("kind", [pytest.param("plain", marks=needs_landlock), "old", "bare"])
def test_attempts_on_others_are_refused(tmp_path: Path, kind: str) -> None:
    found = asked(tmp_path, kind, "ATTEMPTS", "PRIVATE_OF_PARENT", "WORKS")

    assert went_through(found["ATTEMPTS"]) == []
    assert went_through(found["PRIVATE_OF_PARENT"]) == []
    assert went_through(found["WORKS"]) == [*found["WORKS"]]


@needs_landlock
def test_files_that_code_does_not_need_are_refused(tmp_path: Path) -> None:
    assert went_through(asked(tmp_path, "plain", "FILES")["FILES"]) == []


READS = """
from pathlib import Path

def score(response, answer):
    return float(len((Path(__file__).parent / response).read_text()))
"""


@needs_landlock
async def test_keys_below_the_folder_of_the_code_are_refused(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(READS)
    keys = tmp_path / "runs" / "job-1" / "tls"
    keys.mkdir(parents=True)
    for name in ("words.txt", "runs/job-1/notes.txt", "runs/job-1/tls/rollout.key"):
        (tmp_path / name).write_text("four")
    (tmp_path / "latest").symlink_to("runs/job-1")
    (tmp_path / "runs" / "back").symlink_to("..")

    async with ConfinedCode(
        PythonReward(file=str(tmp_path / "code.py")), private=str(keys)
    ) as code:
        assert await code.score(Response(text="words.txt", reference="")) == 4.0
        assert await code.score(Response(text="runs/job-1/notes.txt", reference="")) == 4.0
        assert await code.score(Response(text="latest/notes.txt", reference="")) == 4.0
        for key in ("runs/job-1/tls/rollout.key", "latest/tls/rollout.key"):
            verdict = await code.score(Response(text=key, reference=""))
            assert isinstance(verdict, Unjudged)
            assert "PermissionError" in verdict.detail
