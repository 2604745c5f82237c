import pytest

from hetrl_core.job.spec import DataSpec, HubDataset, PromptSet
from hetrl_runtime.data.identity import data_identity

ROWS = '{"question": "1+1?", "answer": "2"}\n{"question": "2+2?", "answer": "4"}\n'


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "train.jsonl"
    path.write_text(ROWS)
    return path


def digest(path, **changes):
    data = DataSpec(prompts=str(path), **changes)
    return data_identity(data, data).digest


@pytest.mark.parametrize(
    "edited",
    [
        pytest.param(ROWS.replace('"4"', '"5"'), id="one character"),
        pytest.param(ROWS + ROWS, id="more rows"),
        pytest.param("".join(reversed(ROWS.splitlines(keepends=True))), id="another order"),
        pytest.param(ROWS[: len(ROWS) // 2], id="fewer rows"),
    ],
)
def test_edit_of_data_changes_their_digest(train, edited):
    before = digest(train)
    train.write_text(edited)

    assert digest(train) != before


def test_moved_data_keep_their_digest(train, tmp_path):
    before = digest(train)

    assert digest(train.rename(tmp_path / "moved.jsonl")) == before


def test_digest_of_data_covers_the_fields_read(train):
    assert digest(train, question_field="prompt") != digest(train)


def test_shards_count_in_the_order_of_their_names(tmp_path):
    first, second = tmp_path / "train-0.parquet", tmp_path / "train-1.parquet"
    first.write_text("a")
    second.write_text("b")
    before = digest(tmp_path / "train-*.parquet")
    first.write_text("b")
    second.write_text("a")

    assert digest(tmp_path / "train-*.parquet") != before


def test_name_of_fetched_data_is_that_of_their_set(train):
    data = DataSpec(prompts="train.jsonl", dataset=HubDataset(name="team/sums", revision="v1"))

    found = data.found_at([str(train)])

    assert data_identity(data, found).name == "team/sums at revision v1/train.jsonl"


def test_digest_of_several_sets_covers_names_weights_and_contents(train, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text(ROWS + ROWS)

    def of(*sets):
        named = tuple(
            PromptSet(name=name, prompts=str(path), weight=weight) for name, path, weight in sets
        )
        data = DataSpec(prompts="", sets=named)
        return data_identity(data, data).digest

    digests = [
        of(("a", train, 1), ("b", other, 1)),
        of(("a", train, 1), ("b", other, 2)),
        of(("a", train, 1), ("c", other, 1)),
        of(("a", train, 1), ("b", train, 1)),
        digest(train),
    ]

    assert len(set(digests)) == len(digests)
