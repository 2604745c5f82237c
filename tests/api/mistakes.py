"""Jobs and topologies that are wrong, and what both who judge them must say of each."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.api.objects import A_VOLUME, QWEN3_8B, REMOVED, a_job, a_topology


def _case(name: str, changes: Mapping[str, Any], *said: str) -> Any:
    return pytest.param(a_job(changes), said, id=name)


INVALID_JOBS = [
    # What is not supported yet is refused, and the message names the field.
    _case(
        "a model by uri",
        {"spec.model.source": {"uri": "s3://bucket/model"}},
        "spec.model.source.uri is not supported yet",
    ),
    _case(
        "a secret for the model",
        {"spec.model.secretRef": {"name": "token"}},
        "spec.model.secretRef is not supported yet",
    ),
    _case(
        "prompts of the hub, but not which",
        {"spec.data.prompts": {"hub": "openai/gsm8k"}},
        "spec.data.files must be set if and only if spec.data.prompts.hub is",
    ),
    _case(
        "files of no data set",
        {"spec.data.files": "main/train-*.parquet"},
        "spec.data.files must be set if and only if spec.data.prompts.hub is",
    ),
    _case(
        "a revision of no data set",
        {"spec.data.revision": "main"},
        "spec.data.revision needs spec.data.prompts.hub",
    ),
    _case(
        "prompts by a uri of no store",
        {"spec.data.prompts": {"uri": "ftp://host/x"}},
        "spec.data.prompts.uri must name an object",
        "got ftp://host/x",
    ),
    _case(
        "a bucket without an object",
        {"spec.data.prompts": {"uri": "s3://bucket/"}},
        "spec.data.prompts.uri must name an object",
        "got s3://bucket/",
    ),
    _case(
        "a pattern on a web server",
        {"spec.data.prompts": {"uri": "https://host/x-*.parquet"}},
        "spec.data.prompts.uri must not be a pattern",
    ),
    _case(
        "checkpoints by uri",
        {"spec.storage.checkpoints": {"uri": "s3://bucket/x"}},
        "spec.storage.checkpoints.uri is not supported yet",
    ),
    _case(
        "a manual job without a plan",
        {"spec.planning.mode": "Manual"},
        "spec.planning.planRef must be set if and only if spec.planning.mode is Manual, "
        "got mode Manual",
    ),
    _case(
        "a plan without mode Manual",
        {"spec.planning.planRef": "mine"},
        "spec.planning.planRef must be set if and only if spec.planning.mode is Manual, "
        "got mode Auto",
    ),
    _case(
        "a long history",
        {"spec.planning.historyLimit": 11},
        "spec.planning.historyLimit",
    ),
    _case(
        "a window of no time",
        {"spec.planning.replan": {"stabilityWindowSeconds": 0}},
        "spec.planning.replan.stabilityWindowSeconds",
    ),
    _case(
        "trajectories by process group",
        {"spec.runtime.transport": {"trajectories": "ProcessGroup"}},
        "spec.runtime.transport.trajectories ProcessGroup is not supported yet",
    ),
    _case(
        "many restarts within a window",
        {"spec.failurePolicy": {"windowSeconds": 60, "maxRestarts": 101}},
        "spec.failurePolicy.maxRestarts must be <= 100 with windowSeconds, got 101",
    ),
    _case(
        "many restarts by a rule",
        {
            "spec.failurePolicy.rules": [
                {"role": "rollout", "action": "RestartPod", "maxRestarts": 101}
            ]
        },
        "spec.failurePolicy.rules.maxRestarts must be <= 100",
    ),
    _case("a queue", {"spec.scheduling.queue": "q"}, "spec.scheduling.queue is not supported yet"),
    _case(
        "a gang scheduler",
        {"spec.scheduling.gang": {"provider": "volcano"}},
        "spec.scheduling.gang is not supported yet",
    ),
    _case(
        "a controller without a domain",
        {"spec.managedBy": "multikueue"},
        "spec.managedBy must be a domain and a name, as hetrl.dev/operator, got multikueue",
    ),
    # Unions.
    _case(
        "no source",
        {"spec.model.source": {}},
        "spec.model.source must set exactly one of path, hub, claim, uri",
    ),
    _case(
        "two sources",
        {"spec.data.prompts": {"path": "x", "claim": {"name": "y"}}},
        "spec.data.prompts must set exactly one of path, hub, claim, uri",
    ),
    _case(
        "a pattern for another reward",
        {"spec.data.regex": {"pattern": "x"}},
        "spec.data.regex must be set if and only if spec.data.reward is regex, got reward math",
    ),
    _case(
        "no pattern",
        {"spec.data.reward": "regex"},
        "spec.data.regex must be set if and only if spec.data.reward is regex, got reward regex",
    ),
    _case(
        "no code",
        {"spec.data.reward": "python"},
        "spec.data.python must be set if and only if spec.data.reward is python",
    ),
    _case(
        "code from nowhere",
        {"spec.data.reward": "python", "spec.data.python": {"source": {}}},
        "spec.data.python.source must set exactly one of path, hub, claim, uri",
    ),
    _case(
        "code of the hub",
        {"spec.data.reward": "python", "spec.data.python": {"source": {"hub": "a/b"}}},
        "spec.data.python.source.hub is not supported yet",
    ),
    _case(
        "a penalty for every response and more",
        {"spec.data.lengthPenalty": {"bufferTokens": 1025}},
        "spec.data.lengthPenalty.bufferTokens must be <= maxResponseTokens (1024), got 1025",
    ),
    _case(
        "one tool twice",
        {"spec.data.tools": ["calculator", "calculator"]},
        "spec.data.tools must not name a tool twice",
    ),
    _case(
        "two objectives",
        {"spec.planning.objective": {"throughput": {}, "cost": {"requiredSamplesPerSecond": 1}}},
        "spec.planning.objective must set exactly one of throughput, cost, deadline",
    ),
    _case(
        "a volume of nothing",
        {"spec.runtime.podTemplate.volumes": [{"name": "x"}]},
        "volumes must each set exactly one of persistentVolumeClaim, configMap, emptyDir",
    ),
    # Fields that contradict each other.
    _case(
        "synchronous but stale",
        {"spec.algorithm": {"mode": "Sync", "maxStaleness": 2}},
        "spec.algorithm.maxStaleness must be 0 when spec.algorithm.mode is Sync, got 2",
    ),
    _case(
        "a group of one",
        {"spec.algorithm": {"groupSize": 1}},
        "spec.algorithm.groupSize must be >= 2 with spec.algorithm.type GRPO, which compares the "
        "trajectories of one prompt, got 1",
    ),
    _case(
        "a group of one without others",
        {"spec.algorithm": {"groupSize": 1, "advantage": "LeaveOneOut"}},
        "spec.algorithm.groupSize must be >= 2 with spec.algorithm.type GRPO, which compares the "
        "trajectories of one prompt, got 1",
    ),
    _case(
        "a group cut in two",
        {"spec.algorithm": {"groupSize": 7, "globalBatchSize": 64}},
        "spec.algorithm.globalBatchSize (64) must be a multiple of groupSize (7)",
    ),
    _case(
        "unequal minibatches",
        {"spec.algorithm": {"minibatches": 3, "globalBatchSize": 64}},
        "spec.algorithm.globalBatchSize (64) must be a multiple of minibatches (3)",
    ),
    _case(
        "heads that do not divide",
        {"spec.model.architecture": {**QWEN3_8B, "queryHeads": 30}},
        "spec.model.architecture.queryHeads (30) must be a multiple of kvHeads (8)",
    ),
    _case(
        "a revision of a folder",
        {"spec.model.revision": "main"},
        "spec.model.revision needs spec.model.source.hub",
    ),
    _case(
        "a mean above the most",
        {"spec.data.maxResponseTokens": 64, "spec.data.meanResponseTokens": 65},
        "spec.data.meanResponseTokens must be <= maxResponseTokens (64), got 65",
    ),
    _case(
        "a folder of no claim",
        {"spec.storage.checkpoints": {"path": "x"}},
        "spec.storage.checkpoints.path needs spec.storage.checkpoints.persistentVolumeClaim",
    ),
    _case(
        "most below fewest",
        {"spec.rollout": {"minReplicas": 4, "maxReplicas": 2}},
        "spec.rollout.maxReplicas must be >= minReplicas (4), got 2",
    ),
    _case(
        "scaled below the fewest",
        {"spec.rollout": {"minReplicas": 4, "replicas": 2}},
        "spec.rollout.replicas must be 0 or >= minReplicas (4), got 2",
    ),
    _case(
        "scaled above the most",
        {"spec.rollout": {"maxReplicas": 4, "replicas": 5}},
        "spec.rollout.replicas must be <= maxReplicas (4), got 5",
    ),
    # Names that are ours.
    _case(
        "our label",
        {"spec.runtime.podTemplate.labels": {"hetrl.dev/role": "trainer"}},
        "labels must not begin with hetrl.dev/",
    ),
    _case(
        "our annotation",
        {"spec.runtime.podTemplate.annotations": {"hetrl.dev/x": "y"}},
        "annotations must not begin with hetrl.dev/",
    ),
    _case(
        "our variable",
        {"spec.runtime.podTemplate.env": [{"name": "HETRL_X", "value": "y"}]},
        "env names must not begin with HETRL_",
    ),
    _case(
        "a variable set twice",
        {
            "spec.runtime.podTemplate.env": [
                {
                    "name": "HF_TOKEN",
                    "value": "y",
                    "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}},
                }
            ]
        },
        "env must not set both value and valueFrom",
    ),
    _case(
        "our volume",
        {"spec.runtime.podTemplate.volumes": [{"name": "hetrl-tls", "emptyDir": {}}]},
        "volumes names must not begin with hetrl",
    ),
    _case(
        "our folder",
        {
            "spec.runtime.podTemplate.volumes": [A_VOLUME],
            "spec.runtime.podTemplate.volumeMounts": [{"name": "cache", "mountPath": "/hetrl/tls"}],
        },
        "volumeMounts must not lie below /hetrl",
    ),
    _case(
        "a mount of no volume",
        {"spec.runtime.podTemplate.volumeMounts": [{"name": "cache", "mountPath": "/cache"}]},
        "volumeMounts must name volumes of",
    ),
    # Names and limits.
    _case(
        "a name of 41 characters",
        {"metadata.name": "a" * 41},
        "metadata.name must have at most 40 characters (names of pods and labels are longer), "
        "got 41",
    ),
    _case(
        "a name with a dot",
        {"metadata.name": "a.b"},
        "metadata.name must match ^[a-z]([-a-z0-9]*[a-z0-9])?$",
    ),
    # What only one algorithm has.
    _case(
        "a critic for GRPO",
        {"spec.algorithm": {"critic": {"discount": 0.99}}},
        "spec.algorithm.critic needs spec.algorithm.type PPO, got GRPO",
    ),
    _case(
        "groups compared by PPO",
        {"spec.algorithm": {"type": "PPO", "advantage": "GroupNormalised"}},
        "spec.algorithm.advantage needs spec.algorithm.type GRPO, got PPO",
    ),
    _case(
        "nothing left after the critic's warm-up",
        {"spec.algorithm": {"type": "PPO", "critic": {"warmUpSteps": 5}}},
        "spec.algorithm.critic.warmUpSteps must be < spec.training.steps (5), got 5",
    ),
    *(
        _case(
            f"a critic's {field} of {value}",
            {"spec.algorithm": {"type": "PPO", "critic": {field: value}}},
            f"spec.algorithm.critic.{field}",
            str(limit),
        )
        for field, value, limit in (
            ("learningRate", -1, 0),
            ("discount", 0, 0),
            ("discount", 1.5, 1),
            ("traceDecay", -0.5, 0),
            ("traceDecay", 2, 1),
            ("valueClip", 0, 0),
            ("warmUpSteps", -1, 0),
        )
    ),
    _case("no steps", {"spec.training.steps": 0}, "spec.training.steps", "0", "1"),
    _case(
        "traces to nowhere",
        {"spec.runtime.telemetry": {"traces": {}}},
        "spec.runtime.telemetry.traces.endpoint",
    ),
    _case(
        "traces by gRPC",
        {"spec.runtime.telemetry": {"traces": {"endpoint": "grpc://otel:4317"}}},
        "spec.runtime.telemetry.traces.endpoint",
        "grpc://otel:4317",
    ),
    _case(
        "more traces than trajectories",
        {
            "spec.runtime.telemetry": {
                "traces": {"endpoint": "http://otel:4318", "sampleRatio": 1.5}
            }
        },
        "spec.runtime.telemetry.traces.sampleRatio",
        "1.5",
    ),
    _case("no model", {"spec.model": REMOVED}, "spec.model"),
    _case("a step of text", {"spec.training.steps": "ten"}, "spec.training.steps"),
    _case("half a step", {"spec.training.steps": 0.5}, "spec.training.steps"),
    _case("no name for a reward", {"spec.data.reward": "My Vibes"}, "spec.data.reward", "My Vibes"),
    _case("an unknown tool", {"spec.data.tools": ["shell"]}, "spec.data.tools", "shell"),
    _case(
        "a penalty of nothing",
        {"spec.data.lengthPenalty": {"bufferTokens": 8, "weight": 0}},
        "spec.data.lengthPenalty.weight",
        "0",
    ),
    _case(
        "no memory for code",
        {
            "spec.data.reward": "python",
            "spec.data.python": {"source": {"path": "x"}, "memoryMiB": 8},
        },
        "spec.data.python.memoryMiB",
        "64",
    ),
    _case(
        "a function that is none",
        {
            "spec.data.reward": "python",
            "spec.data.python": {"source": {"path": "x"}, "function": "a.b"},
        },
        "spec.data.python.function",
        "a.b",
    ),
    _case("a nameless column", {"spec.data.questionField": ""}, "spec.data.questionField", "1"),
    _case("too stale", {"spec.algorithm.maxStaleness": 65}, "spec.algorithm.maxStaleness", "64"),
    _case(
        "a bound below on-policy",
        {"spec.algorithm.maxStaleness": -1},
        "spec.algorithm.maxStaleness",
        "-1",
        "0",
    ),
    *(
        _case(f"{name} of {length}", {f"spec.data.{name}": length}, f"spec.data.{name}", "1")
        for name in ("maxPromptTokens", "maxResponseTokens", "meanResponseTokens")
        for length in (0, -8)
    ),
    *(
        _case(
            f"a model without {name}",
            {
                "spec.model.architecture": {
                    key: value for key, value in QWEN3_8B.items() if key != name
                }
            },
            f"spec.model.architecture.{name}",
            "equired",
        )
        for name in QWEN3_8B
        if name != "queryKeyNorm"
    ),
    _case(
        "a model of no layer",
        {"spec.model.architecture": {**QWEN3_8B, "layers": 0}},
        "spec.model.architecture.layers",
        "1",
    ),
    _case(
        "a budget that pays", {"spec.resources.budgetPerHour": -1}, "spec.resources.budgetPerHour"
    ),
    _case(
        "no pace",
        {"spec.planning.objective": {"cost": {"requiredSamplesPerSecond": 0}}},
        "spec.planning.objective.cost.requiredSamplesPerSecond",
    ),
    _case("no temperature", {"spec.algorithm.temperature": 0}, "spec.algorithm.temperature", "0"),
    _case("a free budget", {"spec.resources.budgetPerHour": 0}, "spec.resources.budgetPerHour"),
    _case(
        "an upward path",
        {"spec.data.prompts": {"claim": {"name": "a", "path": "../b"}}},
        "spec.data.prompts.claim.path",
        "../b",
    ),
    _case("a bad hub id", {"spec.model.source": {"hub": "qwen"}}, "spec.model.source.hub", "qwen"),
    _case(
        "a bad memory size",
        {"spec.runtime.podTemplate.resources": {"trainer": {"memory": "lots"}}},
        "spec.runtime.podTemplate.resources.trainer.memory",
        "lots",
    ),
    _case(
        "an unknown field",
        {"spec.training.step": 3},
        "spec.training.step",
    ),
    _case(
        "33 pools",
        {"spec.resources.pools": [{"name": f"p{n}"} for n in range(33)]},
        "spec.resources.pools",
        "32",
    ),
    _case(
        "two pools of one name",
        {"spec.resources.pools": [{"name": "p"}, {"name": "p"}]},
        "spec.resources.pools[1]",
        "p",
    ),
]

INVALID_TOPOLOGIES = [
    pytest.param(a_topology(changes), said, id=name)
    for name, changes, said in [
        (
            "a name of ours for a name of the API's",
            {
                "spec.links": [
                    {"source": "eu", "to": "us", "bandwidthGbps": 1, "latencyMilliseconds": 1}
                ]
            },
            ("spec.links", "source"),
        ),
        (
            "a link to itself",
            {
                "spec.links": [
                    {"from": "eu", "to": "eu", "bandwidthGbps": 1, "latencyMilliseconds": 1}
                ]
            },
            ("spec.links must join two regions",),
        ),
        (
            "a peak of fp8",
            {"spec.gpuKinds": [{"name": "L4", "peakTeraflops": {"fp8": 242}}]},
            ("spec.gpuKinds.peakTeraflops.fp8 is not supported yet",),
        ),
        (
            "a machine without GPUs",
            {"spec.pools": [{"name": "a", "gpuKind": "L4", "machines": 1, "gpusPerMachine": 0}]},
            ("spec.pools[0].gpusPerMachine", "1"),
        ),
    ]
]
