"""The files that reward code may read, as a list."""

from pathlib import Path

import pytest

from hetrl_runtime.reward.confinement.readable import readable


def made(folder: Path) -> Path:
    for name in ("code.py", "words/a.txt", "runs/1/tls/key", "runs/1/log", "runs/2/log"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return folder


def below(paths: list[Path], folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in paths if path.is_relative_to(folder)}


@pytest.mark.parametrize(
    ("private", "parts"),
    [
        (None, {".", "code.py"}),
        ("../elsewhere", {".", "code.py"}),
        ("runs", {"code.py", "words"}),
        ("runs/1/tls", {"code.py", "words", "runs/1/log", "runs/2"}),
        (".", set()),
    ],
)
def test_readable_leaves_out_what_is_private(
    tmp_path: Path, private: str | None, parts: set[str]
) -> None:
    folder = made(tmp_path / "job")
    left_out = None if private is None else folder / private
    assert below(readable(folder / "code.py", private=left_out), folder) == parts


def test_readable_never_has_the_root_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", ["", "/", "/usr/..", "/somewhere"])
    found = readable(Path("/code.py"), private=None)
    assert Path("/code.py") in found
    assert Path("/somewhere") in found
    assert Path("/") not in {path.resolve() for path in found}


@pytest.mark.parametrize(
    "name", ["/etc/shadow", "/root", "/tmp", "/proc", "/dev/shm", "/hetrl/tls"]
)
def test_readable_has_no_folder_of_others(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", ["/opt/library"])
    for prefix in ("prefix", "exec_prefix", "base_prefix", "base_exec_prefix"):
        monkeypatch.setattr(f"sys.{prefix}", "/opt/python")
    found = readable(Path("/reward/code.py"), private=None)
    assert not any(Path(name).is_relative_to(path) for path in found)
