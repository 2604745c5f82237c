"""Readiness of each role, and the pod counts in the status."""

from dataclasses import replace

from hetrl_api.job.status import PodSetStatus, RoleStatus, RolloutStatus
from hetrl_core.plan.pod_sets import PodSet, inference_tasks
from hetrl_core.task import Role, Task
from hetrl_operator.model.conditions import Finding, condition
from hetrl_operator.model.labels import JOB_NAME, ROLE
from hetrl_operator.model.observed import Observed, PodSeen
from hetrl_operator.model.pods import names_and_reasons, num_ready, num_wanted
from hetrl_operator.model.reasons import ConditionType, Reason

_CRASHES = {"CrashLoopBackOff", "Error", "OOMKilled", "RunContainerError", "StartError"}
_IMAGE_PROBLEMS = {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"}


def role_findings(seen: Observed, sets: tuple[PodSet, ...]) -> tuple[Finding, ...]:
    """Return whether each role is ready, and Running, of a job whose pods should run."""
    inference = _inference(seen, sets)
    roles = (_trainer(seen, sets), _rollout(seen, sets), *inference)
    coordinator = num_ready(seen.pods, Role.COORDINATOR) > 0
    if coordinator and all(each.holds for each in roles):
        who = "trainers, rollouts and inference workers" if inference else "trainers and rollouts"
        running = Finding(
            type=ConditionType.RUNNING,
            holds=True,
            reason=Reason.TRAINING_IN_PROGRESS,
            message=f"coordinator, {who} are ready",
        )
    else:
        running = Finding(
            type=ConditionType.RUNNING,
            holds=False,
            reason=_why_not_running(seen),
            message=names_and_reasons(seen.pods),
        )
    return (*roles, running)


def stopped_findings(seen: Observed, reason: str, message: str) -> tuple[Finding, ...]:
    """Return the same conditions of a job whose pods should not run."""
    has_inference = condition(seen.job.status, ConditionType.INFERENCE_READY) is not None
    types = (
        ConditionType.TRAINER_READY,
        ConditionType.ROLLOUT_READY,
        *((ConditionType.INFERENCE_READY,) if has_inference else ()),
        ConditionType.RUNNING,
        ConditionType.PROGRESSING,
    )
    return tuple(Finding(type=each, holds=False, reason=reason, message=message) for each in types)


def pod_set_statuses(
    seen: Observed, sets: tuple[PodSet, ...], running: frozenset[Role]
) -> tuple[PodSetStatus, ...]:
    """Return the readiness of each pod set."""
    return tuple(
        PodSetStatus(
            name=each.name,
            role=each.role,
            gpu_kind=each.gpu_kind or None,
            replicas=each.num_pods if each.role in running else 0,
            ready_replicas=sum(
                pod.is_ready and not pod.is_deleting
                for pod in seen.pods
                if pod.pod_set == each.name
            ),
        )
        for each in sets
    )


def trainer_status(pod_sets: tuple[PodSetStatus, ...]) -> RoleStatus:
    """Return the trainer pods together."""
    return _status(pod_sets, Role.TRAINER)


def inference_status(pod_sets: tuple[PodSetStatus, ...]) -> RoleStatus | None:
    """Return the inference pods together; None where the plan has none."""
    has_some = any(each.role == Role.INFERENCE for each in pod_sets)
    return _status(pod_sets, Role.INFERENCE) if has_some else None


def rollout_status(
    job: str, pod_sets: tuple[PodSetStatus, ...], sets: tuple[PodSet, ...]
) -> RolloutStatus:
    """Return the rollout pods together, and what ``kubectl scale`` counts them by."""
    own = _status(pod_sets, Role.ROLLOUT)
    is_beside = any(each.generates for each in sets) and not num_wanted(sets, Role.ROLLOUT)
    summary = f"{trainer_status(pod_sets).summary} in trainers" if is_beside else own.summary
    return RolloutStatus(
        replicas=own.replicas,
        ready_replicas=own.ready_replicas,
        summary=summary,
        selector=f"{JOB_NAME}={job},{ROLE}={Role.ROLLOUT}",
    )


def _status(pod_sets: tuple[PodSetStatus, ...], role: Role) -> RoleStatus:
    replicas, ready = _totals(pod_sets, role)
    return RoleStatus(replicas=replicas, ready_replicas=ready, summary=f"{ready}/{replicas}")


def _totals(pod_sets: tuple[PodSetStatus, ...], role: Role) -> tuple[int, int]:
    ours = [each for each in pod_sets if each.role == role]
    return sum(each.replicas for each in ours), sum(each.ready_replicas for each in ours)


def _trainer(seen: Observed, sets: tuple[PodSet, ...]) -> Finding:
    wanted = num_wanted(sets, Role.TRAINER)
    return _finding(
        seen, Role.TRAINER, type_=ConditionType.TRAINER_READY, wanted=wanted, needed=wanted
    )


def _rollout(seen: Observed, sets: tuple[PodSet, ...]) -> Finding:
    wanted = num_wanted(sets, Role.ROLLOUT)
    if not wanted:
        # Its rollout workers are in the trainers' pods, and ready when these are.
        return replace(_trainer(seen, sets), type=ConditionType.ROLLOUT_READY)
    asked = seen.job.parsed.written.rollout.min_replicas if seen.job.parsed else 1
    return _finding(
        seen,
        Role.ROLLOUT,
        type_=ConditionType.ROLLOUT_READY,
        wanted=wanted,
        needed=min(wanted, asked),
    )


def _inference(seen: Observed, sets: tuple[PodSet, ...]) -> tuple[Finding, ...]:
    """Return InferenceReady of a plan that has such pods: each task needs one that is asked."""
    wanted = num_wanted(sets, Role.INFERENCE)
    if not wanted:
        return ()
    lacks = any(not _is_asked(seen, sets, task) for task in inference_tasks(sets))
    return (
        _finding(
            seen,
            Role.INFERENCE,
            type_=ConditionType.INFERENCE_READY,
            wanted=wanted,
            needed=wanted if lacks else 1,
        ),
    )


def _is_asked(seen: Observed, sets: tuple[PodSet, ...], task: Task) -> bool:
    names = {each.name for each in sets if any(rank.task is task for rank in each.ranks)}
    return any(pod.is_ready and not pod.is_deleting for pod in seen.pods if pod.pod_set in names)


def _finding(seen: Observed, role: Role, *, type_: str, wanted: int, needed: int) -> Finding:
    ready = num_ready(seen.pods, role)
    pods = [pod for pod in seen.pods if pod.role is role]
    if ready >= needed:
        reason = Reason.ALL_READY if ready == wanted else Reason.MIN_READY
        message = f"{ready} of {wanted} pods are ready"
        return Finding(type=type_, holds=True, reason=reason, message=message)
    message = f"{ready} of {wanted} pods are ready: {names_and_reasons(pods)}"
    return Finding(type=type_, holds=False, reason=_why_not_ready(seen, pods), message=message)


def _why_not_ready(seen: Observed, pods: list[PodSeen]) -> str:
    if any(pod.node in seen.lost_nodes for pod in pods if not pod.is_ready):
        return Reason.NODE_LOST
    waiting = {pod.waiting_reason for pod in pods if not pod.is_ready}
    if waiting & _IMAGE_PROBLEMS:
        return Reason.IMAGE_PULL_ERROR
    if waiting & _CRASHES:
        return Reason.CRASH_LOOP
    if "Unschedulable" in waiting:
        return Reason.UNSCHEDULABLE
    if any(pod.others_trouble for pod in pods if not pod.is_ready):
        return Reason.SIDECAR_NOT_READY
    return Reason.STARTING if pods else Reason.NO_PODS


def _why_not_running(seen: Observed) -> str:
    """Tell a job that still starts from one that ran before and lost something."""
    known = condition(seen.job.status, ConditionType.RUNNING)
    ran = known is not None and known.reason in {Reason.TRAINING_IN_PROGRESS, Reason.NOT_READY}
    return Reason.NOT_READY if ran else Reason.STARTING
