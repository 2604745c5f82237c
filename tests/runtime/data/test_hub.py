"""Data sets of the hub: fetched from a server that answers as the hub does, on loopback."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hetrl_core.job.spec import HubDataset
from hetrl_runtime.data.fetching.hub import fetched
from hetrl_runtime.data.open_prompts import open_prompts
from hetrl_runtime.data.prompt import Unusable
from tests.runtime.data.hub_server import NAME, Hub, served

SUMS = HubDataset(name=NAME, revision="main")
GOES_ON = threading.Event()
FIRST, SECOND = "1" * 40, "2" * 40


def lines(*numbers: int) -> bytes:
    return "".join(
        json.dumps({"question": f"{n} + 1?", "answer": f"#### {n + 1}"}) + "\n" for n in numbers
    ).encode()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with served() as (found, address):
        monkeypatch.setenv("HF_ENDPOINT", address)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr("hetrl_runtime.data.fetching.retry._PAUSE_SECONDS", 0.05)
        yield found


def questions(where: Path | Unusable) -> list[str]:
    assert isinstance(where, Path), where
    found = open_prompts(where)
    assert not isinstance(found, Unusable), found
    with closing(found):
        return [found[number].question for number in range(len(found))]


def test_named_files_alone_are_fetched(hub: Hub, tmp_path: Path) -> None:
    hub.publish(FIRST, main__train_jsonl=lines(1, 2), main__test_jsonl=lines(9))

    where = fetched(SUMS, "main/train_jsonl", state_path=tmp_path, timeout_seconds=30, stop=GOES_ON)

    assert questions(where) == ["1 + 1?", "2 + 1?"]
    assert not any("test_jsonl" in each for each in hub.asked if "/resolve/" in each)


def test_run_keeps_its_commit_though_the_branch_moved(hub: Hub, tmp_path: Path) -> None:
    hub.publish(FIRST, train=lines(1))
    fetched(SUMS, "train", state_path=tmp_path / "run", timeout_seconds=30, stop=GOES_ON)
    hub.publish(SECOND, train=lines(2))

    again = fetched(SUMS, "train", state_path=tmp_path / "run", timeout_seconds=30, stop=GOES_ON)
    another = fetched(
        SUMS, "train", state_path=tmp_path / "another", timeout_seconds=30, stop=GOES_ON
    )

    assert questions(again) == ["1 + 1?"]
    assert questions(another) == ["2 + 1?"]


def test_hub_that_is_busy_is_asked_again(hub: Hub, tmp_path: Path) -> None:
    hub.publish(FIRST, train=lines(1))
    hub.status = [503, 429]

    where = fetched(SUMS, "train", state_path=tmp_path, timeout_seconds=30, stop=GOES_ON)

    assert questions(where) == ["1 + 1?"]


def test_token_of_the_environment_lets_a_run_in(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.publish(FIRST, train=lines(1))
    hub.token = "hf_ours"

    shut_out = fetched(SUMS, "train", state_path=tmp_path, timeout_seconds=30, stop=GOES_ON)
    monkeypatch.setenv("HF_TOKEN", "hf_ours")
    let_in = fetched(SUMS, "train", state_path=tmp_path, timeout_seconds=30, stop=GOES_ON)

    assert isinstance(shut_out, Unusable)
    assert questions(let_in) == ["1 + 1?"]


@pytest.mark.parametrize(
    ("dataset", "timeout_seconds", "status"),
    [
        pytest.param(HubDataset(name="team/none"), 30.0, [], id="no such data set"),
        pytest.param(HubDataset(name="team/sums", revision="v9"), 30.0, [], id="no such revision"),
        pytest.param(HubDataset(name="team/sums"), 30.0, [403] * 50, id="forbidden"),
        pytest.param(HubDataset(name="team/sums"), 0.3, [503] * 500, id="down for too long"),
    ],
)
def test_unavailable_dataset_is_reported(
    hub: Hub, tmp_path: Path, dataset: HubDataset, timeout_seconds: float, status: list[int]
) -> None:
    hub.publish(FIRST, train=lines(1))
    hub.status = status

    found = fetched(
        dataset, "train", state_path=tmp_path, timeout_seconds=timeout_seconds, stop=GOES_ON
    )

    assert isinstance(found, Unusable)
    assert found.message.startswith(f"data set {dataset} cannot be fetched from the hub: ")


def test_files_that_are_not_there_are_named(hub: Hub, tmp_path: Path) -> None:
    hub.publish(FIRST, train=lines(1))

    where = fetched(
        SUMS, "main/train-*.parquet", state_path=tmp_path, timeout_seconds=30, stop=GOES_ON
    )

    assert isinstance(where, Path)
    found = open_prompts(where)
    assert isinstance(found, Unusable)
    assert "main/train-*.parquet: no file is named like that" in found.message
