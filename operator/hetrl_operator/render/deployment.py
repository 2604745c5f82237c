"""The inputs of a job's manifests, and the names that they share."""

from collections.abc import Mapping
from dataclasses import dataclass

from hetrl_core.plan.pod_sets import COORDINATOR, PodSet
from hetrl_core.task import Role, Task
from hetrl_operator.model.labels import API_VERSION, child_name
from hetrl_operator.model.observed import JobSeen, ParsedSpec
from hetrl_operator.model.planning import PlanSeen
from hetrl_operator.settings import PodSettings

Json = dict[str, object]

COORDINATOR_PORT = 7400
WEIGHTS_PORT = 7401
RENDEZVOUS_PORT = 7402
INFERENCE_PORT = 7403
METRICS_PORT = 9090
MORE_METRICS = {Role.ROLLOUT: ("metrics-rollout", 9091), Role.INFERENCE: ("metrics-scores", 9092)}
"""Metrics ports of a pod's second program; a port's name has at most 15 letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The desired deployment of one job with its plan."""

    job: JobSeen
    parsed: ParsedSpec
    plan: PlanSeen
    sets: tuple[PodSet, ...]
    running: frozenset[Role]
    """Roles whose pods should exist; the sets of other roles have no replicas."""

    settings: PodSettings

    @property
    def service(self) -> str:
        """Name of the headless Service that gives every pod its DNS name."""
        return self.job.name

    @property
    def secret(self) -> str:
        """Name of the Secret with the job's certificates."""
        return child_name(self.job.name, "identity")

    @property
    def owner(self) -> Json:
        """The reference by which a child is deleted with its job."""
        return owner_of(self.job)

    def set_name(self, pods: PodSet) -> str:
        """Name the StatefulSet of a pod set, and its ConfigMap."""
        return child_name(self.job.name, pods.name)

    def host(self, pods: PodSet, ordinal: int) -> str:
        """Return the DNS name of one pod, the same wherever the cluster's domain ends."""
        pod = f"{self.set_name(pods)}-{ordinal}"
        return f"{pod}.{self.service}.{self.job.namespace}.svc"

    @property
    def coordinator_host(self) -> str:
        """DNS name of the coordinator's pod."""
        pods = next(each for each in self.sets if each.name == COORDINATOR)
        return self.host(pods, 0)

    @property
    def first_trainer_host(self) -> str:
        """DNS name of the pod with the first training replica's first GPU."""
        return next(
            self.host(pods, rank.ordinal)
            for pods in self.sets
            for rank in pods.ranks
            if rank.task is Task.ACTOR_TRAINING
            and (rank.replica, rank.stage, rank.tensor_rank) == (0, 0, 0)
        )

    def metadata(
        self, name: str, *, labels: Mapping[str, str], annotations: Mapping[str, str]
    ) -> Json:
        """Return the metadata of a child."""
        return {
            "name": name,
            "namespace": self.job.namespace,
            "labels": dict(labels),
            "annotations": dict(annotations),
            "ownerReferences": [self.owner],
        }


def owner_of(job: JobSeen) -> Json:
    """Return the reference by which an object is deleted with its job."""
    return {
        "apiVersion": API_VERSION,
        "kind": "HetRLJob",
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
