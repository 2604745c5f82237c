import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from hetrl_api.plan.plan import HetRLPlan, MachineRun, Placement
from hetrl_api.plan.ranges import Run
from hetrl_api.plan.to_core import from_plan, to_plan
from hetrl_cli.main import hetrl

QWEN3_8B = {
    "hiddenSize": 4096,
    "layers": 36,
    "queryHeads": 32,
    "kvHeads": 8,
    "headDim": 128,
    "ffnSize": 12288,
    "vocabSize": 151936,
    "tiedEmbeddings": False,
    "queryKeyNorm": True,
}
SMALL_CONFIG = {
    "model_type": "qwen3",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
    "vocab_size": 128,
}
FLEET = """
apiVersion: hetrl.dev/v1alpha1
kind: HetRLTopology
metadata: {name: fleet}
spec:
  pools:
    - {name: a100, gpuKind: A100-40GB, machines: 2, gpusPerMachine: 8}
    - {name: l40s, gpuKind: L40S, machines: 1, gpusPerMachine: 8}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fleet.yaml").write_text(FLEET)
    return tmp_path


def write_job(folder: Path, *, model: dict[str, Any] | None = None, **spec: Any) -> str:
    job = {
        "apiVersion": "hetrl.dev/v1alpha1",
        "kind": "HetRLJob",
        "metadata": {"name": "math"},
        "spec": {
            "model": model or {"source": {"hub": "Qwen/Qwen3-8B"}, "architecture": QWEN3_8B},
            "data": {"prompts": {"path": "train.jsonl"}},
            "training": {"steps": 100},
            # A busy machine must not cut a search short: only whole ones are repeatable.
            "planning": {"strategy": "Homogeneous", "timeBudgetSeconds": 600},
        }
        | spec,
    }
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    return str(path)


def ask(folder: Path, *arguments: str, **options: Any) -> Result:
    fleet = ["-t", str(folder / "fleet.yaml")]
    return CliRunner().invoke(hetrl, ["plan", *arguments, *fleet], **options)


@pytest.mark.slow
def test_person_reads_who_does_what_and_what_to_expect(folder: Path) -> None:
    result = ask(folder, "-f", write_job(folder, resources={"budgetPerHour": 80}))

    assert result.exit_code == 0, result.output
    for said in (
        "train",
        "generate",
        "·pp",
        "-00",
        "samples/s",
        "$/h",
        "versions on average",
        "of 80.00 $/h",
        "GPUs: ",
        "gap to bound",
        " alone",
        "x the step time",
    ):
        assert said in result.output, said
    assert "preview" not in result.output


@pytest.mark.slow
def test_unsupported_plan_is_called_a_preview(folder: Path) -> None:
    result = ask(folder, "-f", write_job(folder, runtime={"engine": "transformers"}))

    assert result.exit_code == 0, result.output
    assert "engine transformers generates with one GPU per replica" in result.output
    assert "note: this plan is a preview; --runnable plans what this release can" in result.output


def test_pipe_gets_no_colours(folder: Path) -> None:
    assert "\x1b" not in ask(folder, "-f", write_job(folder), color=True).output


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_program_reads_the_plan_as_an_object(folder: Path, output: str) -> None:
    result = ask(folder, "-f", write_job(folder), "-o", output)

    assert result.exit_code == 0, result.output
    given = json.loads(result.stdout) if output == "json" else yaml.safe_load(result.stdout)
    spec = HetRLPlan.model_validate_json(json.dumps(given)).spec
    assert from_plan(to_plan(spec)) == spec
    assert spec.num_gpus == sum(
        sum(placement.gpus) * times(placement)
        for group in spec.groups
        for placement in group.placements
    )


def times(placement: Placement) -> int:
    return sum(len(names(each)) for each in placement.runs) // len(placement.gpus)


def names(run: MachineRun) -> tuple[str, ...]:
    return Run(pattern=run.machines, times=run.times).names()


@pytest.mark.slow
def test_question_always_prints_the_same_bytes(folder: Path) -> None:
    job = write_job(folder)
    first, second = (ask(folder, "-f", job, "-o", "json").stdout for _ in range(2))
    assert first == second


def test_job_comes_from_standard_input_too(folder: Path) -> None:
    text = Path(write_job(folder)).read_text()
    assert ask(folder, "-f", "-", "-o", "json", input=text).exit_code == 0


def test_dimensions_come_from_the_models_own_config(folder: Path) -> None:
    (folder / "model").mkdir()
    (folder / "model/config.json").write_text(json.dumps(SMALL_CONFIG))
    job = write_job(folder, model={"source": {"path": "model"}})
    assert ask(folder, "-f", job).exit_code == 0


@pytest.mark.parametrize(
    ("revision", "said"),
    [
        pytest.param({}, "as of commit b968826d9c46\n", id="no revision"),
        pytest.param({"revision": "main"}, "and the job names revision main: give", id="another"),
    ],
)
def test_dimensions_of_a_known_hub_model_come_from_the_table(
    folder: Path, revision: dict[str, str], said: str
) -> None:
    hub = {"source": {"hub": "Qwen/Qwen3-8B"}} | revision
    by_table = ask(folder, "-f", write_job(folder, model=hub), "-o", "json")
    stated = ask(
        folder, "-f", write_job(folder, model=hub | {"architecture": QWEN3_8B}), "-o", "json"
    )

    assert by_table.stdout == stated.stdout
    assert "note: the dimensions of Qwen/Qwen3-8B come from the table" in by_table.stderr
    assert said in by_table.stderr
    assert "table of known models" not in stated.stderr


def test_supported_plan_has_no_note(folder: Path) -> None:
    (folder / "model").mkdir()
    (folder / "model/config.json").write_text(json.dumps(SMALL_CONFIG))
    job = write_job(folder, model={"source": {"path": "model"}})
    result = ask(folder, "-f", job, "--runnable")
    assert result.exit_code == 0
    assert "note:" not in result.output


def test_missing_plan_ends_with_every_reason(folder: Path) -> None:
    job = write_job(folder, resources={"budgetPerHour": 1, "maxGPUs": 2})
    result = ask(folder, "-f", job, "-o", "json")
    assert result.exit_code == 2
    refused = json.loads(result.stdout)
    assert refused["kind"] == "Infeasible"
    assert all(reason in result.stderr for reason in refused["reasons"])


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param({"training": {"steps": 0}}, "spec.training.steps must be >= 1", id="value"),
        pytest.param({"trainning": {}}, "trainning", id="misspelt field"),
        pytest.param(
            {"model": {"source": {"hub": "Qwen/Qwen3-8"}}},
            "are not known: give model.architecture, or a source whose config.json can be read; "
            "known Hub ids that are similar: Qwen/Qwen3-8B",
            id="unknown dimensions",
        ),
    ],
)
def test_wrong_job_is_refused_in_one_line(folder: Path, spec: dict[str, Any], said: str) -> None:
    model = spec.pop("model", None)
    result = ask(folder, "-f", write_job(folder, model=model, **spec))
    assert result.exit_code != 0
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        pytest.param("job.yaml", None, "cannot read", id="no job file"),
        pytest.param("fleet.yaml", None, "cannot read", id="no fleet file"),
        pytest.param("fleet.yaml", "kind: Pod", "got Pod", id="not a fleet"),
        pytest.param("fleet.yaml", "a: [", "not YAML", id="not YAML"),
        pytest.param(
            "fleet.yaml",
            FLEET.replace("A100-40GB", "B9000"),
            "'B9000' is not in the catalogue",
            id="unknown GPU",
        ),
    ],
)
def test_wrong_file_is_refused_in_one_line(
    folder: Path, name: str, text: str | None, said: str
) -> None:
    job = write_job(folder)
    (folder / name).unlink() if text is None else (folder / name).write_text(text)
    result = ask(folder, "-f", job)
    assert result.exit_code == 1
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def hetrl_process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).parent / "hetrl", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
    )


@pytest.mark.slow
def test_missing_fleet_and_cluster_name_the_remedy(folder: Path) -> None:
    found = hetrl_process("plan", "-f", write_job(folder), KUBECONFIG=str(folder / "none"))
    assert found.returncode == 1
    assert found.stderr.startswith("Error: no kubeconfig at")
    assert "--topology FILE" in found.stderr


@pytest.mark.slow
def test_unreachable_cluster_gives_no_traceback(folder: Path) -> None:
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        """
apiVersion: v1
kind: Config
current-context: gone
contexts: [{name: gone, context: {cluster: gone, user: someone}}]
clusters: [{name: gone, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: someone, user: {}}]
"""
    )
    found = hetrl_process("plan", "-f", write_job(folder), KUBECONFIG=str(kubeconfig))
    assert found.returncode == 1
    assert "the API server does not answer" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.slow
def test_planning_imports_no_torch(folder: Path) -> None:
    code = (
        "import sys; from click.testing import CliRunner; from hetrl_cli.main import hetrl;"
        f"result = CliRunner().invoke(hetrl, ['plan', '-f', {write_job(folder)!r},"
        f" '-t', {str(folder / 'fleet.yaml')!r}]); assert result.exit_code == 0, result.output;"
        "print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert not {"torch", "transformers", "vllm", "kopf", "grpc", "kubernetes"} & set(loaded)


def test_version_is_printed() -> None:
    assert CliRunner().invoke(hetrl, ["--version"]).output.startswith("hetrl, version ")


def test_commands_are_listed() -> None:
    listed = CliRunner().invoke(hetrl, ["--help"]).output
    for name in ("plan", "run", "make-model", "coordinator"):
        assert f"\n  {name} " in listed


SMALL_FLEET = """
apiVersion: hetrl.dev/v1alpha1
kind: HetRLTopology
metadata: {name: fleet}
spec:
  pools:
    - {name: a100, gpuKind: A100-80GB, machines: 1, gpusPerMachine: 4}
    - {name: l4, gpuKind: L4, machines: 1, gpusPerMachine: 4}
"""
SMALL_MODEL = {
    "source": {"hub": "Qwen/Qwen3-0.6B"},
    "architecture": {
        "hiddenSize": 1024,
        "layers": 28,
        "queryHeads": 16,
        "kvHeads": 8,
        "headDim": 128,
        "ffnSize": 3072,
        "vocabSize": 151936,
        "tiedEmbeddings": True,
        "queryKeyNorm": True,
    },
}


@pytest.mark.slow
def test_waits_and_worth_of_one_more_gpu_are_explained(folder: Path) -> None:
    (folder / "fleet.yaml").write_text(SMALL_FLEET)
    result = ask(folder, "-f", write_job(folder, model=SMALL_MODEL), "--explain")

    assert result.exit_code == 0, result.output
    for said in ("Why", "% of a step", "one more A100-80GB", "worth at most", "no plan passes"):
        assert said in result.output, said


@pytest.mark.slow
def test_frontier_lists_plans_of_which_none_is_cheaper_and_faster(folder: Path) -> None:
    (folder / "fleet.yaml").write_text(SMALL_FLEET)
    job = write_job(folder, model=SMALL_MODEL)

    table = ask(folder, "-f", job, "--frontier", "4")
    assert table.exit_code == 0, table.output
    assert "What each budget buys" in table.output

    found = json.loads(ask(folder, "-f", job, "--frontier", "4", "-o", "json").output)
    points = [
        (each["dollarsPerHour"], each["samplesPerSecond"])
        for each in (plan["spec"]["prediction"] for plan in found["plans"])
    ]
    assert len(points) > 1
    assert points == sorted(points)
    assert [rate for _, rate in points] == sorted(rate for _, rate in points)
