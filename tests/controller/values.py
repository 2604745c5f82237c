"""Jobs, plans and observations for tests of the operator, with defaults."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hetrl_api.job.job import MANAGER
from hetrl_core.job.spec import Strategy
from hetrl_core.plan.plan import (
    MemoryUse,
    Parallelism,
    Plan,
    Prediction,
    Replica,
    ReplicaGroup,
    Share,
)
from hetrl_core.plan.pod_sets import pod_sets
from hetrl_core.task import Role, Task
from hetrl_operator.model.observed import (
    JobSeen,
    Observed,
    ParsedSpec,
    PodSeen,
    ProgressSeen,
    Termination,
)
from hetrl_operator.model.parse import job_seen
from hetrl_operator.model.plan_selection import active_plan, named
from hetrl_operator.model.planning import PlanningSeen, PlanSeen
from hetrl_operator.planning.inputs import planning_key
from hetrl_operator.settings import PodSettings

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
SETTINGS = PodSettings(
    images={
        Role.COORDINATOR: "hetrl/trainer:test",
        Role.TRAINER: "hetrl/trainer:test",
        Role.ROLLOUT: "hetrl/rollout:test",
        Role.INFERENCE: "hetrl/trainer:test",
    },
    progress_url="https://hetrl-operator.hetrl-system.svc:9443",
    progress_authority="-----BEGIN CERTIFICATE-----\n",
)


def later(**units: float) -> datetime:
    """A time after ``NOW``: ``later(minutes=5)``."""
    return NOW + timedelta(**units)


def a_job_object(*, name: str = "math", uid: str = "uid-1", **spec: Any) -> dict[str, Any]:
    """A HetRLJob as the API server stores it; keyword arguments replace fields of its spec."""
    fields: dict[str, Any] = {
        "model": {
            "source": {"claim": {"name": "data", "path": "model"}},
            "architecture": {
                "hiddenSize": 128,
                "layers": 3,
                "queryHeads": 4,
                "kvHeads": 2,
                "headDim": 32,
                "ffnSize": 256,
                "vocabSize": 128,
                "tiedEmbeddings": True,
            },
        },
        "data": {"prompts": {"claim": {"name": "data", "path": "train.jsonl"}}},
        "training": {"steps": 10},
        "storage": {"checkpoints": {"persistentVolumeClaim": "checkpoints"}},
        "managedBy": MANAGER,
        **spec,
    }
    return {
        "apiVersion": "hetrl.dev/v1alpha1",
        "kind": "HetRLJob",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid,
            "generation": 1,
            "creationTimestamp": "2026-01-31T11:59:50Z",
        },
        "spec": fields,
    }


def a_job(**changes: Any) -> JobSeen:
    """A HetRLJob as the operator sees it."""
    return job_seen(a_job_object(**changes))


def a_group(task: Task, kind: str, machines: tuple[str, ...], **changes: Any) -> ReplicaGroup:
    """Replicas of one GPU, one on each machine named."""
    fields: dict[str, Any] = {
        "tasks": (task,),
        "gpu_kind": kind,
        "region": "local",
        "parallelism": Parallelism(tensor=1, stage_layers=(3,)),
        "replicas": tuple(
            Replica(shares=(Share(machine=each, num_gpus=1),), work_share=1 / len(machines))
            for each in machines
        ),
        "memory": MemoryUse(weights_bytes=1),
        **changes,
    }
    return ReplicaGroup(**fields)


def a_plan(
    *,
    trainers: int = 1,
    rollouts: tuple[str, ...] = ("l4-0", "l4-0"),
    inference: tuple[str, ...] = (),
    critics: tuple[str, ...] = (),
    machine: str = "a100-0",
) -> Plan:
    """Trainers on one A100 machine, on each L4 machine named a rollout, an inference worker or a
    process that trains a critic apart."""
    training = a_group(Task.ACTOR_TRAINING, "A100-80GB", (machine,) * trainers)
    generation = a_group(Task.ACTOR_GENERATION, "L4", rollouts, concurrency=16)
    critic = a_group(
        Task.CRITIC_TRAINING, "L4", critics, tasks=(Task.CRITIC_INFERENCE, Task.CRITIC_TRAINING)
    )
    scoring = a_group(Task.REFERENCE_INFERENCE, "L4", inference)
    return Plan(
        strategy=Strategy.AUTO,
        groups=(
            training,
            *((critic,) if critics else ()),
            generation,
            *((scoring,) if inference else ()),
        ),
        prediction=Prediction(
            step_seconds=2.0,
            generation_seconds=2.0,
            training_seconds=1.0,
            weight_sync_seconds=0.1,
            samples_per_second=128.0,
            dollars_per_hour=5.5,
            mean_staleness=1.0,
            bottleneck="generation: HBM bandwidth of the L4s",
        ),
        gap=0.0,
    )


def parsed_of(job: JobSeen) -> ParsedSpec:
    """What a valid job asks."""
    assert job.parsed, job.problem
    return job.parsed


def a_plan_seen(job: JobSeen, plan: Plan | None = None, *, name: str = "math-abc") -> PlanSeen:
    """A plan that answers a job."""
    return PlanSeen(
        name=name,
        uid=f"uid-{name}",
        made_for=job.uid,
        planned_for=planning_key(parsed_of(job)),
        key="abc",
        plan=plan or a_plan(),
        created_at=NOW,
    )


def a_pod(pod_set: str, ordinal: int = 0, **changes: Any) -> PodSeen:
    """A ready pod; its role is the first word of its set's name."""
    fields: dict[str, Any] = {
        "name": f"math-{pod_set}-{ordinal}",
        "uid": f"pod-{pod_set}-{ordinal}",
        "pod_set": pod_set,
        "role": Role(pod_set.split("-", maxsplit=1)[0]),
        "ordinal": ordinal,
        "created_at": NOW,
        "scheduled_at": NOW,
        "is_ready": True,
        **changes,
    }
    return PodSeen(**fields)


PODS = (
    a_pod("coordinator"),
    a_pod("trainer-a100-80gb-0"),
    a_pod("rollout-l4-0"),
    a_pod("rollout-l4-0", 1),
)
"""All pods of ``a_plan()``, ready."""


def an_observation(job: JobSeen | None = None, **changes: Any) -> Observed:
    """A planned job as it is seen, with no pods or children unless given."""
    job = job or a_job()
    planned = job.parsed is not None
    plans = changes.get("plans", (a_plan_seen(job),) if planned else ())
    plan = active_plan(job, plans)
    fields: dict[str, Any] = {
        "job": job,
        "planning": PlanningSeen(
            spec_key=planning_key(job.parsed) if job.parsed else "", is_reserved=planned
        ),
        "plans": plans,
        "active_plan": plan,
        "pod_sets": pod_sets(plan.plan) if plan else (),
        "manual_plan": named(job, plans),
        **changes,
    }
    return Observed(**fields)


def ended(pod: PodSeen, exit_code: int, message: str = "", **changes: Any) -> PodSeen:
    """A pod whose container has ended."""
    end = Termination(exit_code=exit_code, message=message, at=NOW)
    return replace(pod, is_ready=False, termination=end, **changes)


def a_report(step: int = 3, **changes: Any) -> ProgressSeen:
    """A coordinator's report."""
    fields: dict[str, Any] = {
        "step": step,
        "total_steps": 10,
        "policy_version": step,
        "samples_per_second": 12.0,
        "staleness_p95": 2.0,
        "reward": 0.5,
        "eta_seconds": 70.0,
        "received_at": NOW,
        **changes,
    }
    return ProgressSeen(**fields)
