from importlib import import_module
from pathlib import Path

import pytest

from hetrl_api.load import load_job
from hetrl_api.validation.documents import documents
from hetrl_core.plan.capabilities import obstacles
from hetrl_core.plan.groupings import GROUPINGS, grouping
from hetrl_core.plan.plan import Infeasible, Plan
from hetrl_core.task import Task
from hetrl_planner.plan_job import plan
from tests.api.objects import load_fleet

EXAMPLES = Path(__file__).parents[2] / "examples"
JOBS = sorted(path for path in EXAMPLES.glob("*.yaml") if "kind: HetRLJob" in path.read_text())
FLEETS = sorted(
    path for path in EXAMPLES.glob("*.yaml") if "kind: HetRLTopology" in path.read_text()
)


def planned(job: str, fleet: str) -> Plan | Infeasible:
    spec = load_job((EXAMPLES / job).read_text(), base_path=EXAMPLES)
    machines = load_fleet((EXAMPLES / fleet).read_text(), resources=spec.resources)
    return plan(machines, spec, should_stop=lambda: False, runnable_only=True)


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_example_is_a_valid_job_of_its_own_name(path: Path) -> None:
    job = load_job(path.read_text(), base_path=EXAMPLES)

    assert job.name == path.stem.replace(".", "-")
    # The operator plans before any pod could read a config.json.
    assert job.model.architecture is not None


@pytest.mark.parametrize("path", FLEETS, ids=lambda path: path.stem)
def test_example_is_a_valid_fleet(path: Path) -> None:
    assert load_fleet(path.read_text()).num_gpus > 0


def test_hetrls_fleet_has_its_numbers() -> None:
    fleet = load_fleet((EXAMPLES / "hetrl-fleet.yaml").read_text())

    counts = {
        kind.name: sum(each.num_gpus for each in fleet.machines if each.gpu_kind == kind.name)
        for kind in fleet.gpu_kinds
    }
    assert counts == {"A100-40GB": 24, "L40S": 24, "L4": 16}


@pytest.mark.parametrize("job", ["arithmetic.yaml", "gsm8k.yaml"])
def test_local_jobs_train_on_a100_and_generate_on_both_kinds(job: str) -> None:
    found = planned(job, "local-fleet.yaml")

    assert isinstance(found, Plan)
    where = {
        task: sorted(group.gpu_kind for group in found.groups_with(task) for _ in group.replicas)
        for task in (Task.ACTOR_TRAINING, Task.ACTOR_GENERATION)
    }
    assert where == {
        Task.ACTOR_TRAINING: ["A100-80GB"],
        Task.ACTOR_GENERATION: ["A100-80GB", "L4"],
    }


@pytest.mark.slow
def test_infeasible_job_is_infeasible() -> None:
    found = planned("infeasible.yaml", "hetrl-fleet.yaml")

    assert isinstance(found, Infeasible)
    assert "training takes at least 16 GPUs" in " ".join(found.reasons)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "fleet"),
    [
        ("qwen3-1.7b.yaml", "hetrl-fleet.yaml"),
        ("qwen3-4b.yaml", "hetrl-fleet.yaml"),
        ("qwen3-8b.yaml", "hetrl-fleet.yaml"),
        ("qwen3-14b.yaml", "hetrl-fleet.yaml"),
        ("qwen2.5-1.5b-budget.yaml", "hetrl-fleet.yaml"),
        ("qwen3-8b-deadline.yaml", "hetrl-fleet.yaml"),
        ("qwen3-8b-ppo-regions.yaml", "regions-fleet.yaml"),
        ("qwen3-14b-spot.yaml", "regions-fleet.yaml"),
        ("qwen3-4b-object-store.yaml", "hetrl-fleet.yaml"),
    ],
)
def test_job_runs_on_the_fleet_that_it_names(job: str, fleet: str) -> None:
    assert f"-t examples/{fleet}" in (EXAMPLES / job).read_text()
    spec = load_job((EXAMPLES / job).read_text(), base_path=EXAMPLES)
    found = planned(job, fleet)
    assert isinstance(found, Plan)
    assert obstacles(found, spec) == ()
    budget = spec.resources.budget_dollars_per_hour
    assert budget is None or found.prediction.dollars_per_hour <= budget


@pytest.mark.slow
def test_local_ppo_job_trains_its_critic_beside_the_policy() -> None:
    found = planned("arithmetic-ppo.yaml", "local-fleet.yaml")

    assert isinstance(found, Plan)
    assert grouping(group.tasks for group in found.groups) in GROUPINGS
    (trains,) = found.groups_with(Task.CRITIC_TRAINING)
    assert Task.ACTOR_TRAINING in trains.tasks


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["arithmetic.yaml", "arithmetic-ppo.yaml", "arithmetic-calculator.yaml"]
)
def test_arithmetic_job_describes_the_model_that_we_make(name: str) -> None:
    (job,) = documents((EXAMPLES / name).read_text())
    # It imports PyTorch, which the other tests here need not wait for.
    made = import_module("hetrl_runtime.tiny.model").TinyArchitecture()

    given = job["spec"]["model"]["architecture"]
    assert (given["hiddenSize"], given["layers"]) == (made.hidden_size, made.num_layers)
    assert (given["queryHeads"], given["kvHeads"]) == (made.num_heads, made.num_kv_heads)
    assert (given["headDim"], given["ffnSize"]) == (made.head_size, made.feed_forward_size)
    assert given["vocabSize"] == made.vocabulary_size
