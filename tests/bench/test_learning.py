import pytest
import yaml

from bench.proof.learning.cases import CASES, Case
from bench.proof.learning.page import write
from bench.proof.learning.play import Kept, code_of, job_of
from hetrl_api.load import read_job
from hetrl_core.job.algorithm import AlgorithmType

pytestmark = pytest.mark.slow

GOOD = {
    "accuracy_before": 0.3,
    "accuracy_after": 0.95,
    "held_out_problems": 2300,
    "staleness_mean": 3.5,
    "staleness_max": 4,
    "trajectories": 20480,
    "demo_wall_seconds": 100.0,
}
ETA_4 = Case(algorithm=AlgorithmType.GRPO, max_staleness=4)


def named(name: str) -> Case:
    (case,) = (each for each in CASES if each.name == name)
    return case


def test_cases_have_own_names_and_jobs_that_the_api_accepts():
    assert len({case.name for case in CASES}) == len(CASES)
    for case in CASES:
        algorithm = read_job(job_of(case)).spec.algorithm
        assert (algorithm.type, algorithm.max_staleness) == (case.algorithm, case.max_staleness)
        assert algorithm.proximal_policy is case.proximal_policy
        assert yaml.safe_load(job_of(case))["spec"]["runtime"]["engine"] == case.engine.value


@pytest.mark.parametrize(
    ("name", "found", "wrong"),
    [
        pytest.param("grpo-eta4-transformers-seed1", {}, "", id="all is well"),
        pytest.param(
            "grpo-eta4-transformers-seed1",
            {"accuracy_after": 0.899},
            "comes to 89.9%",
            id="too little learned",
        ),
        pytest.param(
            "grpo-eta4-transformers-seed1",
            {"accuracy_before": 0.41},
            "starts at 41.0%",
            id="too much known",
        ),
        pytest.param(
            "ppo-eta4-vllm-seed3", {"staleness_mean": 1.9}, "mean staleness 1.90", id="not stale"
        ),
        pytest.param("grpo-eta4-vllm-seed1", {"staleness_max": 5}, "staleness 5", id="too stale"),
        pytest.param(
            "ppo-eta4-transformers-seed2",
            {"held_out_problems": 1999},
            "1999 held-out",
            id="too few problems",
        ),
        pytest.param(
            "ppo-eta2-transformers-seed1-shuffled",
            {"staleness_max": 2},
            "gains 65.0%",
            id="a control that learns",
        ),
        pytest.param(
            "grpo-naive-eta8-transformers-seed1",
            {"accuracy_after": 0.1, "staleness_mean": 7},
            "",
            id="of naive runs no accuracy is asked",
        ),
    ],
)
def test_run_reports_what_it_falls_short_of(name, found, wrong):
    shortcomings = named(name).shortcomings(GOOD | found)

    assert (", ".join(shortcomings)).startswith(wrong)
    assert bool(shortcomings) is bool(wrong)


def test_case_counts_as_played_only_while_its_inputs_are_unchanged(tmp_path, monkeypatch):
    source = tmp_path / "runtime/hetrl_runtime/trainer/losses/policy_loss.py"
    source.parent.mkdir(parents=True)
    source.write_text("cap = 5  # why\n")
    monkeypatch.setattr("bench.proof.learning.play.job_of", lambda case: case.name)
    monkeypatch.chdir(tmp_path)
    record = Kept(result=GOOD, rewards=(0.5,), commit="a", code=code_of(ETA_4))

    source.write_text("cap = 5  # said better\n")
    assert record.is_of(ETA_4)
    source.write_text("cap = 6\n")
    assert not record.is_of(ETA_4)


def test_page_says_what_is_missing_and_compares_what_is_there(tmp_path, monkeypatch):
    page, figure = tmp_path / "learning.md", tmp_path / "learning.png"
    monkeypatch.setattr("bench.proof.learning.page.PAGE", page)
    monkeypatch.setattr("bench.proof.learning.page.FIGURE", figure)
    fresh = named("grpo-eta0-transformers-seed1")
    records = {
        case: Kept(
            result=GOOD | {"accuracy_after": after, "staleness_max": case.max_staleness},
            rewards=(0.2, 0.8),
            commit="abc",
            code=code_of(case),
        )
        for case, after in {fresh: 0.97, ETA_4: 0.93}.items()
    }

    write(records)

    text = page.read_text()
    assert "seed 1: η = 4 ends 4.0 points below η = 0 (at most 3 below): **does not hold**" in text
    assert f"Not played yet, {len(CASES) - 2} of {len(CASES)}: grpo-eta2-transformers" in text
    assert "| 4 | 93.0% (1) | - | - | - |" in text
    assert figure.read_bytes().startswith(b"\x89PNG")
