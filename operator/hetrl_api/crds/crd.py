"""The three kinds as CustomResourceDefinitions: names, columns and subresources."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hetrl_api.crds.schema import structural_schema
from hetrl_api.fleet.topology import HetRLTopology
from hetrl_api.job.job import API_VERSION, HetRLJob
from hetrl_api.plan.plan import HetRLPlan
from hetrl_api.validation.rules import ApiModel

GROUP, VERSION = API_VERSION.split("/")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of ``kubectl get``."""

    name: str
    type: str
    json_path: str
    priority: int = 0
    """0: always; 1: with ``-o wide``."""

    def to_schema(self) -> dict[str, object]:
        """Return the entry for ``additionalPrinterColumns``."""
        wide = {"priority": self.priority} if self.priority else {}
        return {"name": self.name, "type": self.type, "jsonPath": self.json_path, **wide}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of the API."""

    model: type[ApiModel]
    plural: str
    short_name: str
    scope: str
    columns: tuple[Column, ...]
    subresources: Mapping[str, object]

    @property
    def name(self) -> str:
        """Name of the kind: ``HetRLJob``."""
        return self.model.__name__

    @property
    def crd_name(self) -> str:
        """Name of the CustomResourceDefinition."""
        return f"{self.plural}.{GROUP}"

    def to_crd(self) -> dict[str, Any]:
        """Return the CustomResourceDefinition."""
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.crd_name},
            "spec": {
                "group": GROUP,
                "names": {
                    "kind": self.name,
                    "listKind": f"{self.name}List",
                    "plural": self.plural,
                    "singular": self.name.lower(),
                    "shortNames": [self.short_name],
                    "categories": ["hetrl"],
                },
                "scope": self.scope,
                "versions": [self._version()],
            },
        }

    def _version(self) -> dict[str, Any]:
        version: dict[str, Any] = {
            "name": VERSION,
            "served": True,
            "storage": True,
            "additionalPrinterColumns": [column.to_schema() for column in self.columns],
            "schema": {"openAPIV3Schema": structural_schema(self.model)},
        }
        return {**version, **({"subresources": self.subresources} if self.subresources else {})}


AGE = Column("Age", "date", ".metadata.creationTimestamp")

JOB = Kind(
    model=HetRLJob,
    plural="hetrljobs",
    short_name="hrj",
    scope="Namespaced",
    columns=(
        Column("Phase", "string", ".status.phase"),
        Column("Trainer", "string", ".status.trainer.summary"),
        Column("Rollout", "string", ".status.rollout.summary"),
        Column("Step", "integer", ".status.progress.step"),
        Column("Samples/s", "number", ".status.progress.samplesPerSecond"),
        Column("Staleness", "number", ".status.progress.stalenessP95"),
        Column("$/h", "number", ".status.plan.dollarsPerHour"),
        Column("Plan", "string", ".status.plan.name"),
        AGE,
        Column("Reward", "number", ".status.progress.reward", 1),
        Column("ETA", "number", ".status.progress.etaSeconds", 1),
        Column("Bottleneck", "string", ".status.plan.bottleneck", 1),
    ),
    subresources={
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.rollout.replicas",
            "statusReplicasPath": ".status.rollout.replicas",
            "labelSelectorPath": ".status.rollout.selector",
        },
    },
)

PLAN = Kind(
    model=HetRLPlan,
    plural="hetrlplans",
    short_name="hrp",
    scope="Namespaced",
    columns=(
        # As the operator writes them (hetrl_operator.model.labels): a plan's status is annotations.
        Column("Job", "string", r".metadata.labels.hetrl\.dev/job-name"),
        Column("Active for", "string", r".metadata.annotations.hetrl\.dev/in-force"),
        Column("Strategy", "string", ".spec.strategy"),
        Column("GPUs", "integer", ".spec.numGPUs"),
        Column("Samples/s", "number", ".spec.prediction.samplesPerSecond"),
        Column("Step s", "number", ".spec.prediction.stepSeconds"),
        Column("$/h", "number", ".spec.prediction.dollarsPerHour"),
        Column("Gap", "number", ".spec.gapRatio"),
        AGE,
        Column("Bottleneck", "string", ".spec.prediction.bottleneck", 1),
        Column("Replaced", "date", r".metadata.annotations.hetrl\.dev/replaced-at", 1),
        Column("Because", "string", r".metadata.annotations.hetrl\.dev/replaced-because", 1),
    ),
    subresources={},
)

TOPOLOGY = Kind(
    model=HetRLTopology,
    plural="hetrltopologies",
    short_name="hrt",
    scope="Cluster",
    columns=(
        Column("Kinds", "string", ".spec.gpuKinds[*].name"),
        Column("Regions", "string", ".spec.regions[*].name"),
        AGE,
    ),
    subresources={"status": {}},
)

KINDS = (JOB, PLAN, TOPOLOGY)
