import itertools
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetrl_api.load import load_job
from hetrl_api.validation.documents import documents
from hetrl_api.validation.errors import InvalidObjectError
from hetrl_core.job.algorithm import Mode
from hetrl_core.job.reward import LengthPenalty, PythonReward
from hetrl_core.job.spec import (
    JobSpec,
    MaximiseThroughput,
    MeetDeadline,
    MinimiseCost,
    Tool,
    TracesSpec,
)
from tests.api.mistakes import INVALID_JOBS
from tests.api.objects import (
    VALID_JOBS,
    a_job,
    a_topology,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def load(job: dict[str, Any], **places: Any) -> JobSpec:
    return load_job(json.dumps(job), base_path=Path("/jobs"), now=NOON, **places)


@pytest.mark.parametrize("job", VALID_JOBS)
def test_valid_job_is_read(job: dict[str, Any]) -> None:
    assert load(job).name == job["metadata"]["name"]


@pytest.mark.parametrize(("job", "said"), INVALID_JOBS)
def test_invalid_job_is_refused_with_reason(job: dict[str, Any], said: tuple[str, ...]) -> None:
    with pytest.raises(InvalidObjectError) as refusal:
        load(job)

    (line,) = refusal.value.messages
    assert all(part in line for part in said), line


def test_mistakes_are_all_named_at_once() -> None:
    job = a_job({"spec.algorithm": {"critic": {}, "mode": "Sync", "maxStaleness": 1}})

    with pytest.raises(InvalidObjectError) as refusal:
        load(job)

    assert len(refusal.value.messages) == 2


def test_unknown_field_suggests_a_known_one() -> None:
    with pytest.raises(InvalidObjectError, match=r"maxgpus is not a field: did you mean maxGPUs\?"):
        load(a_job({"spec.resources.maxgpus": 3}))


def test_claims_are_where_pods_mount_them() -> None:
    job = load(a_job({"spec.storage.checkpoints": {"persistentVolumeClaim": "kept"}}))

    assert job.model.source == "/hetrl/claims/arithmetic/model"
    assert job.data.prompts == "/hetrl/claims/arithmetic/train.jsonl"
    assert job.training.checkpoint_path == "/hetrl/checkpoints/arithmetic"


def test_claims_map_to_folders_on_one_machine() -> None:
    job = load(
        a_job({"spec.storage.checkpoints": {"persistentVolumeClaim": "kept", "path": "a"}}),
        claims={"arithmetic": Path("/data"), "kept": Path("/kept")},
    )

    assert job.model.source == "/data/model"
    assert job.data.prompts == "/data/train.jsonl"
    assert job.training.checkpoint_path == "/kept/a"


def test_checkpoints_stay_with_local_run_unless_claim_has_a_folder() -> None:
    job = a_job({"spec.storage.checkpoints": {"persistentVolumeClaim": "kept"}})

    assert load(job, claims={"arithmetic": Path("/data")}).training.checkpoint_path == ""


def test_claim_without_a_folder_is_named() -> None:
    with pytest.raises(InvalidObjectError, match="--claim arithmetic=FOLDER"):
        load(a_job(), claims={})


def test_rewards_and_columns_reach_the_run() -> None:
    job = load(
        a_job(
            {
                "spec.data.questionField": "problem",
                "spec.data.reward": "python",
                "spec.data.python": {"source": {"path": "reward.py"}, "memoryMiB": 256},
                "spec.data.lengthPenalty": {"bufferTokens": 64},
                "spec.data.tools": ["calculator"],
                "spec.storage.tensorBoard": {"path": "curves"},
            }
        )
    )

    assert job.training.tensorboard_path == "/jobs/curves"

    assert (job.data.question_field, job.data.answer_field) == ("problem", "answer")
    assert job.data.python == PythonReward(file="/jobs/reward.py", memory_bytes=256 << 20)
    assert job.data.length_penalty == LengthPenalty(buffer_tokens=64, weight=1.0)
    assert job.data.tools == (Tool.CALCULATOR,)


@pytest.mark.parametrize(
    ("telemetry", "expected"),
    [
        (None, None),
        ({}, None),
        ({"traces": {"endpoint": "http://otel:4318"}}, TracesSpec(endpoint="http://otel:4318")),
        (
            {"traces": {"endpoint": "http://otel:4318", "sampleRatio": 1}},
            TracesSpec(endpoint="http://otel:4318", sample_ratio=1.0),
        ),
    ],
    ids=["nothing said", "nothing asked", "a share of them", "all"],
)
def test_traces_are_sent_where_a_job_says_and_nowhere_else(
    telemetry: dict[str, Any] | None, expected: TracesSpec | None
) -> None:
    job = load(a_job({} if telemetry is None else {"spec.runtime.telemetry": telemetry}))

    assert job.traces == expected


@pytest.mark.parametrize(
    "pattern",
    ["(a", "a{4294967295}", "a{4294967296}", "(" * 2000 + "a" + ")" * 2000, "(?P<a>x)" * 2],
    ids=["unbalanced", "overflow", "too-large", "deep", "twice"],
)
def test_pattern_that_python_cannot_read_is_refused(pattern: str) -> None:
    job = a_job({"spec.data.reward": "regex", "spec.data.regex": {"pattern": pattern}})

    with pytest.raises(InvalidObjectError, match=r"spec.data.regex.pattern is not a regular expr"):
        load(job)


ALIASES = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in itertools.pairwise("abcdefghi")
)


def test_document_that_aliases_make_huge_is_refused() -> None:
    with pytest.raises(InvalidObjectError, match="more than 1,000,000 values"):
        documents(ALIASES)


def test_document_with_a_few_aliases_is_read() -> None:
    assert documents("a: &a [1, 2]\nb: *a\n") == ({"a": [1, 2], "b": [1, 2]},)


def test_relative_paths_are_beside_the_job() -> None:
    job = a_job({"spec.model.source": {"path": "models/tiny"}, "spec.data.prompts": {"path": "/x"}})

    spec = load(job)

    assert (spec.model.source, spec.model.is_path) == ("/jobs/models/tiny", True)
    assert spec.data.prompts == "/x"


def test_hub_id_is_not_a_path() -> None:
    model = load(a_job({"spec.model": {"source": {"hub": "a/b"}, "revision": "v1"}})).model

    assert (model.source, model.is_path, model.revision) == ("a/b", False, "v1")


@pytest.mark.parametrize(
    ("algorithm", "bound"),
    [({}, 2), ({"mode": "Sync"}, 0), ({"mode": "Async", "maxStaleness": 0}, 0)],
    ids=["asynchronous", "synchronous", "given"],
)
def test_bound_follows_the_mode(algorithm: dict[str, Any], bound: int) -> None:
    spec = load(a_job({"spec.algorithm": algorithm})).algorithm

    assert spec.max_staleness == bound
    assert (spec.mode is Mode.SYNC) == (algorithm.get("mode") == "Sync")


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        ({"throughput": {}}, MaximiseThroughput()),
        ({"cost": {"requiredSamplesPerSecond": 3}}, MinimiseCost(3.0)),
        ({"deadline": {"finishBefore": "2026-01-01T13:00:00Z"}}, MeetDeadline(3600.0)),
    ],
    ids=["throughput", "cost", "deadline"],
)
def test_objectives_are_read(objective: dict[str, Any], expected: object) -> None:
    assert load(a_job({"spec.planning.objective": objective})).planning.objective == expected


def test_deadline_in_the_past_is_refused() -> None:
    late = {"deadline": {"finishBefore": "2026-01-01T11:00:00Z"}}

    with pytest.raises(InvalidObjectError, match="finishBefore must lie in the future"):
        load(a_job({"spec.planning.objective": late}))


def test_zero_replicas_leave_the_number_to_the_planner() -> None:
    assert load(a_job({"spec.rollout.replicas": 0})).rollout.replicas is None
    assert load(a_job({"spec.rollout.replicas": 3})).rollout.replicas == 3


def test_file_without_a_job_says_what_it_found() -> None:
    with pytest.raises(InvalidObjectError, match=r"expected one HetRLJob, got 0 .*HetRLTopology"):
        load(a_topology())


def test_numbers_and_times_are_read_as_kubectl_reads_them() -> None:
    text = """
    apiVersion: hetrl.dev/v1alpha1
    kind: HetRLJob
    metadata: {name: arithmetic}
    spec:
      model: {source: {path: m}}
      data: {prompts: {path: d}}
      training: {steps: 1, learningRate: 1e-6}
      planning: {objective: {deadline: {finishBefore: 2026-01-01T12:30:00Z}}}
    """

    job = load_job(text, base_path=Path("/jobs"), now=NOON)

    assert job.training.learning_rate == 1e-6
    assert job.planning.objective == MeetDeadline(1800.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", "not YAML"),
        ("just words", "must be a mapping"),
        ("kind: HetRLJob\nkind: HetRLJob", "line 2: 'kind' is written twice"),
        ("kind: List\nitems: [3]", "must be a mapping"),
        ("kind: HetRLJob\nmetadata: 3", "metadata must be a mapping"),
        ("", "expected one HetRLJob, got 0"),
        ("? [1]\n: 2", "not YAML"),
        ("kind: HetRLJob\nspec: &a [*a]", "JSON cannot hold"),
        ("kind: HetRLJob\nspec: !!binary aGk=", "JSON cannot hold"),
        ("kind: HetRLJob\nspec: !!python/object:os.system {}", "not YAML"),
    ],
    ids=[
        "broken",
        "a scalar",
        "a key twice",
        "a list of numbers",
        "odd metadata",
        "nothing",
        "a list as a key",
        "a circle",
        "bytes",
        "code",
    ],
)
def test_non_object_is_refused_with_reason(text: str, said: str) -> None:
    with pytest.raises(InvalidObjectError) as refusal:
        load_job(text, base_path=Path("/jobs"))

    assert said in str(refusal.value)
    assert all("\n" not in message for message in refusal.value.messages)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=9,
)


@given(
    path=st.sampled_from(
        ["kind", "metadata", "spec", "spec.model", "spec.algorithm.groupSize", "spec.resources"]
    ),
    value=JSON,
)
@pytest.mark.slow
def test_field_of_any_value_gives_a_job_or_reasons(path: str, value: Any) -> None:
    said: tuple[str, ...] = ("a job",)
    try:
        load(a_job({path: value}))
    except InvalidObjectError as refusal:
        said = refusal.messages

    assert said
    assert all(message and "\n" not in message for message in said)


@given(text=st.text(max_size=80))
def test_file_of_any_content_gives_reasons(text: str) -> None:
    with pytest.raises(InvalidObjectError):
        load_job(text, base_path=Path("/jobs"))


def test_arguments_of_ours_are_refused_in_a_chat_template() -> None:
    arguments = {"enable_thinking": False, "tools": "x"}
    job = a_job({"spec.data.chatTemplateArguments": arguments})

    with pytest.raises(InvalidObjectError, match=r"chatTemplateArguments.* must not have tools"):
        load(job)
