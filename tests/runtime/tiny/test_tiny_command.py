from click.testing import CliRunner

from hetrl_runtime.tiny.command import make_data, make_model


def test_data_is_written_and_said_to_be(tmp_path):
    path = tmp_path / "new" / "held-out.jsonl"

    result = CliRunner().invoke(make_data, [str(path), "--count", "2000", "--split", "held-out"])

    assert result.exit_code == 0
    assert result.output == f"{path}: 2000 problems of arithmetic, split held-out\n"
    assert len(path.read_text().splitlines()) == 2000


def test_excess_problems_are_refused_in_one_line(tmp_path):
    result = CliRunner().invoke(make_data, [str(tmp_path / "data.jsonl"), "--count", "5000"])

    assert result.exit_code == 1
    assert result.output == (
        "Error: count must be between 1 and 3357, the problems of split train, got 5000\n"
    )


def test_model_is_never_written_over_something_else(tmp_path):
    result = CliRunner().invoke(make_model, [str(tmp_path)])

    assert result.exit_code == 1
    assert f"{tmp_path} is there already" in result.output
