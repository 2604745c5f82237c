"""Objects of a store: from a server that answers as S3 does, and from a web server, on loopback."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hetrl_core.job.spec import ObjectStore
from hetrl_runtime.data.fetching.store import fetched
from hetrl_runtime.data.open_prompts import open_prompts
from hetrl_runtime.data.prompt import Unusable
from tests.runtime.data.loopback import serving
from tests.runtime.data.store_server import BUCKET, Bucket, environment, served

SUMS = ObjectStore(url=f"s3://{BUCKET}")
GOES_ON = threading.Event()


def lines(*numbers: int) -> bytes:
    return "".join(
        json.dumps({"question": f"{n} + 1?", "answer": f"#### {n + 1}"}) + "\n" for n in numbers
    ).encode()


def shard(*numbers: int) -> bytes:
    sink = pa.BufferOutputStream()
    columns = {
        "question": [f"{n} + 1?" for n in numbers],
        "answer": [f"#### {n + 1}" for n in numbers],
    }
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    monkeypatch.setattr("hetrl_runtime.data.fetching.retry._PAUSE_SECONDS", 0.05)
    monkeypatch.setattr("hetrl_runtime.data.fetching.store._RETRIES", {"max_retries": 0})
    with served() as (found, address):
        for name, value in environment(address).items():
            monkeypatch.setenv(name, value)
        yield found


def fetch(
    files: str, run: Path, *, source: ObjectStore = SUMS, timeout_seconds: float = 30.0
) -> Path | Unusable:
    return fetched(source, files, state_path=run, timeout_seconds=timeout_seconds, stop=GOES_ON)


def questions(where: Path | Unusable) -> list[str]:
    assert isinstance(where, Path), where
    found = open_prompts(where)
    assert not isinstance(found, Unusable), found
    with closing(found):
        return [found[number].question for number in range(len(found))]


def test_object_is_fetched_once(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {"math/train.jsonl": lines(1, 2), "math/test.jsonl": lines(9)}

    assert questions(fetch("math/train.jsonl", tmp_path)) == ["1 + 1?", "2 + 1?"]
    asked = len(bucket.asked)
    assert questions(fetch("math/train.jsonl", tmp_path)) == ["1 + 1?", "2 + 1?"]

    assert len(bucket.asked) == asked
    assert not any("test.jsonl" in each for each in bucket.asked)


def test_pattern_names_the_shards_of_one_folder(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {
        "data/train-1.parquet": shard(3),
        "data/train-0.parquet": shard(1, 2),
        "data/test-0.parquet": shard(8),
        "data/old/train-0.parquet": shard(9),
    }

    assert questions(fetch("data/train-*.parquet", tmp_path)) == ["1 + 1?", "2 + 1?", "3 + 1?"]


def test_large_object_comes_in_parts(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hetrl_runtime.data.fetching.store._PART_BYTES", 100)
    bucket.objects = {"train.jsonl": lines(*range(50))}

    assert questions(fetch("train.jsonl", tmp_path)) == [f"{n} + 1?" for n in range(50)]
    parts = [each for each in bucket.asked if "bytes=" in each]
    assert len(parts) == -(-len(bucket.objects["train.jsonl"]) // 100)


def test_coordinator_that_comes_back_without_the_files_fetches_them_again(
    bucket: Bucket, tmp_path: Path
) -> None:
    bucket.objects = {"train.jsonl": lines(1)}
    where = fetch("train.jsonl", tmp_path)
    assert isinstance(where, Path)
    where.unlink()

    assert questions(fetch("train.jsonl", tmp_path)) == ["1 + 1?"]


def test_run_refuses_changed_data(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {"train.jsonl": lines(1)}
    where = fetch("train.jsonl", tmp_path)
    assert isinstance(where, Path)
    where.unlink()
    bucket.objects = {"train.jsonl": lines(2)}

    refused = fetch("train.jsonl", tmp_path)

    assert isinstance(refused, Unusable)
    assert refused.message.startswith("s3://sums/train.jsonl has changed since the run began")
    assert "spec.storage.checkpoints.allowChanges (hetrl run: --allow-change data)" in (
        refused.message
    )


def test_run_reads_changed_data_where_the_job_allows_it(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {"train.jsonl": lines(1)}
    fetch("train.jsonl", tmp_path)
    bucket.objects = {"train.jsonl": lines(2)}

    changed = fetched(
        SUMS,
        "train.jsonl",
        state_path=tmp_path,
        timeout_seconds=30.0,
        stop=GOES_ON,
        accepts_changes=True,
    )

    assert questions(changed) == ["2 + 1?"]
    assert questions(fetch("train.jsonl", tmp_path)) == ["2 + 1?"]


def test_run_of_other_data_in_the_same_folder_starts_again(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {"data/a-0.parquet": shard(1), "data/b-0.parquet": shard(2)}
    fetch("data/a-*.parquet", tmp_path)

    assert questions(fetch("data/*.parquet", tmp_path)) == ["1 + 1?", "2 + 1?"]
    assert questions(fetch("data/b-*.parquet", tmp_path)) == ["2 + 1?"]


def test_store_that_is_busy_is_asked_again(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects = {"train.jsonl": lines(1)}
    bucket.status = [503, 500, 0, 503]

    assert questions(fetch("train.jsonl", tmp_path)) == ["1 + 1?"]


@pytest.mark.parametrize(
    ("files", "status", "said"),
    [
        pytest.param("none.jsonl", [], "s3://sums/none.jsonl cannot be fetched: ", id="no object"),
        pytest.param(
            "data/none-*.parquet",
            [],
            "no object is named like s3://sums/data/none-*.parquet",
            id="no object of a pattern",
        ),
        pytest.param(
            "train.jsonl", [403] * 50, "s3://sums/train.jsonl cannot be fetched: ", id="forbidden"
        ),
        pytest.param(
            "train.jsonl",
            [503] * 500,
            "s3://sums/train.jsonl cannot be fetched: ",
            id="down for too long",
        ),
    ],
)
def test_unavailable_object_is_reported_in_one_line(
    bucket: Bucket, tmp_path: Path, files: str, status: list[int], said: str
) -> None:
    bucket.objects = {"train.jsonl": lines(1)}
    bucket.status = status

    found = fetch(files, tmp_path, timeout_seconds=0.3 if 503 in status else 30.0)

    assert isinstance(found, Unusable)
    assert found.message.startswith(said)
    assert "\n" not in found.message
    assert "Debug" not in found.message


def test_forbidden_store_is_not_asked_again(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.objects = {"train.jsonl": lines(1)}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "unknown")

    assert isinstance(fetch("train.jsonl", tmp_path), Unusable)
    assert len(bucket.asked) == 1


def test_stop_ends_the_wait_for_a_store(bucket: Bucket, tmp_path: Path) -> None:
    bucket.status = [503] * 500
    stop = threading.Event()
    stop.set()

    found = fetched(SUMS, "train.jsonl", state_path=tmp_path, timeout_seconds=600, stop=stop)

    assert isinstance(found, Unusable)
    assert found.message.startswith("stopped; ")


def test_web_server_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "public/math").mkdir(parents=True)
    (tmp_path / "public/math/train.jsonl").write_bytes(lines(4))
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "public"))

    with serving(handler) as address:
        found = fetch("math/train.jsonl", tmp_path / "run", source=ObjectStore(url=address))

    assert questions(found) == ["4 + 1?"]
