"""Jobs and topologies as users write them; those that are wrong are ``mistakes``'."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest

from hetrl_api.load import read_fleet
from hetrl_core.fleet.snapshot import ClusterSnapshot
from hetrl_core.job.spec import ResourcesSpec

REMOVED = object()
"""As a change: the field is not there."""

JOB: dict[str, Any] = {
    "apiVersion": "hetrl.dev/v1alpha1",
    "kind": "HetRLJob",
    "metadata": {"name": "arithmetic"},
    "spec": {
        "model": {"source": {"claim": {"name": "arithmetic", "path": "model"}}},
        "data": {"prompts": {"claim": {"name": "arithmetic", "path": "train.jsonl"}}},
        "training": {"steps": 5},
    },
}

TOPOLOGY: dict[str, Any] = {
    "apiVersion": "hetrl.dev/v1alpha1",
    "kind": "HetRLTopology",
    "metadata": {"name": "fleet"},
    "spec": {"pools": [{"name": "l4", "gpuKind": "L4", "machines": 2, "gpusPerMachine": 4}]},
}

QWEN3_8B = {
    "hiddenSize": 4096,
    "layers": 36,
    "queryHeads": 32,
    "kvHeads": 8,
    "headDim": 128,
    "ffnSize": 12288,
    "vocabSize": 151936,
    "queryKeyNorm": True,
}


def a_job(changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A good job with some fields changed: ``a_job({"spec.training.steps": 0})``."""
    return _changed(JOB, changes or {})


def a_topology(changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A good topology with some fields changed."""
    return _changed(TOPOLOGY, changes or {})


def load_fleet(text: str, *, resources: ResourcesSpec | None = None) -> ClusterSnapshot:
    """The machines of a fleet file that a job may use."""
    return read_fleet(text).snapshot(resources or ResourcesSpec())


def _changed(manifest: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    changed = deepcopy(dict(manifest))
    for path, value in changes.items():
        *parents, name = path.split(".")
        node = changed
        for parent in parents:
            node = node.setdefault(parent, {})
        if value is REMOVED:
            del node[name]
        else:
            node[name] = value
    return changed


A_VOLUME = {"name": "cache", "emptyDir": {"sizeLimit": "8Gi"}}

VALID_JOBS = [
    pytest.param(a_job(changes), id=name)
    for name, changes in {
        "the smallest": {},
        "a model of the hub": {
            "spec.model": {"source": {"hub": "Qwen/Qwen3-1.7B"}, "revision": "main"}
        },
        "a model by path, its size given": {
            "spec.model": {"source": {"path": "models/tiny"}, "architecture": QWEN3_8B}
        },
        "synchronous": {"spec.algorithm": {"mode": "Sync"}},
        "synchronous, said twice": {"spec.algorithm": {"mode": "Sync", "maxStaleness": 0}},
        "every constant of the algorithm": {
            "spec.algorithm": {
                "type": "GRPO",
                "mode": "Async",
                "maxStaleness": 4,
                "groupSize": 4,
                "globalBatchSize": 64,
                "minibatches": 2,
                "clipLow": 0.2,
                "clipHigh": 0.3,
                "behaviourWeightCap": 2,
                "staleWeights": "Mask",
                "proximalPolicy": "Behaviour",
                "advantage": "LeaveOneOut",
                "lossAggregation": "LengthBudget",
                "dynamicSampling": True,
                "klCoefficient": 0.01,
                "klPlacement": "Reward",
                "temperature": 0.9,
            }
        },
        "PPO": {"spec.algorithm": {"type": "PPO", "groupSize": 1}},
        "every constant of the critic": {
            "spec.algorithm": {
                "type": "PPO",
                "critic": {
                    "learningRate": 1e-5,
                    "discount": 0.99,
                    "traceDecay": 0,
                    "valueClip": 0.2,
                    "warmUpSteps": 4,
                    "whitenAdvantages": False,
                },
            }
        },
        "the multi-level search alone": {"spec.planning.strategy": "HetRL"},
        "the integer program alone": {"spec.planning.strategy": "ILP"},
        "exact answers": {"spec.data.reward": "exact", "spec.data.meanResponseTokens": 100},
        "shards in MATH's form": {
            "spec.data.prompts": {"claim": {"name": "math", "path": "data/train-*.parquet"}},
            "spec.data.questionField": "problem",
            "spec.data.answerField": "answer",
        },
        "two data sets": {
            "spec.data.prompts": REMOVED,
            "spec.data.sets": [
                {
                    "name": "gsm8k",
                    "prompts": {"hub": "openai/gsm8k"},
                    "files": "main/train-*.parquet",
                    "revision": "main",
                    "weight": 3,
                },
                {
                    "name": "math",
                    "prompts": {"claim": {"name": "math", "path": "train.jsonl"}},
                    "format": "openr1",
                    "questionField": "task",
                    "answerField": "result",
                },
                {"name": "more", "prompts": {"uri": "s3://bucket/x.jsonl"}, "format": "openr1"},
            ],
        },
        "another project's data, worded otherwise": {
            "spec.data.format": "openr1",
            "spec.data.systemPrompt": "Think first.",
            "spec.data.promptTemplate": r"{question} Put the answer in \\boxed{}.",
            "spec.data.chatTemplateArguments": {"enable_thinking": False, "budget": 1024, "x": "y"},
        },
        "a data set of the hub": {
            "spec.data.prompts": {"hub": "openai/gsm8k"},
            "spec.data.files": "main/train-*.parquet",
            "spec.data.revision": "main",
        },
        "prompts in object storage": {
            "spec.data.prompts": {"uri": "s3://bucket/train.jsonl"},
        },
        "a reward model of the hub": {
            "spec.data.reward": "model",
            "spec.data.model": {"source": {"hub": "owner/judge"}, "revision": "main"},
        },
        "a pattern, and brevity": {
            "spec.data.reward": "regex",
            "spec.data.regex": {"pattern": r"<answer>(?P<answer>.*?)</answer>"},
            "spec.data.lengthPenalty": {"bufferTokens": 128, "weight": 0.5},
        },
        "a tool": {"spec.data.tools": ["calculator"]},
        "answers in a box": {"spec.data.math": {"answerForms": ["Boxed", "HashLine"]}},
        "several rewards": {
            "spec.data.sourceField": "extra.source",
            "spec.data.model": {"source": {"path": "/models/reward"}},
            "spec.data.rewards": [
                {
                    "name": "correct",
                    "sources": ["gsm8k", "math"],
                    "math": {"answerForms": ["Boxed"]},
                },
                {
                    "name": "form",
                    "weight": -0.5,
                    "reward": "regex",
                    "regex": {"pattern": "sorry"},
                },
                {
                    "name": "tests",
                    "weight": 2.0,
                    "sources": ["code"],
                    "reward": "python",
                    "python": {
                        "source": {"claim": {"name": "code", "path": "reward.py"}},
                        "function": "run",
                        "timeoutSeconds": 5.0,
                        "cpuSeconds": 3,
                        "memoryMiB": 512,
                    },
                },
                {"name": "liked", "weight": 0.0, "reward": "model"},
            ],
        },
        "a package's reward": {"spec.data.reward": "unit-tests"},
        "code of one's own": {
            "spec.data.reward": "python",
            "spec.data.python": {
                "source": {"claim": {"name": "code", "path": "reward.py"}},
                "function": "judge",
                "timeoutSeconds": 0.5,
                "cpuSeconds": 1,
                "memoryMiB": 256,
            },
        },
        "checkpoints kept": {
            "spec.storage.checkpoints": {
                "persistentVolumeClaim": "kept",
                "path": "a/b",
                "keepLast": 2,
                "allowChanges": ["Data"],
            }
        },
        "curves for TensorBoard": {"spec.storage.tensorBoard": {"path": "/curves/one"}},
        "pools and a budget": {
            "spec.resources": {
                "pools": [
                    {"name": "a100", "gpuProduct": "A100-40GB", "maxGPUs": 2},
                    {"name": "edge", "nodeSelector": {"site": "edge"}, "pricePerGPUHour": 0.5},
                ],
                "budgetPerHour": 12.5,
                "maxGPUs": 4,
            }
        },
        "rollouts scaled": {"spec.rollout": {"minReplicas": 2, "maxReplicas": 8, "replicas": 4}},
        "the cheapest": {"spec.planning.objective": {"cost": {"requiredSamplesPerSecond": 3}}},
        "a deadline": {
            "spec.planning.objective": {"deadline": {"finishBefore": "2999-01-01T00:00:00Z"}}
        },
        "only planned": {"spec.planning": {"mode": "PlanOnly", "strategy": "Homogeneous"}},
        "a plan that is given": {"spec.planning": {"mode": "Manual", "planRef": "mine"}},
        "no history": {"spec.planning.historyLimit": 0},
        "a pod template": {
            "spec.runtime": {
                "engine": "transformers",
                "images": {
                    "trainer": "example.com/trainer:1",
                    "inference": "example.com/trainer:2",
                },
                "podTemplate": {
                    "labels": {"team": "rl"},
                    "annotations": {"note": "for everyone"},
                    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
                    "env": [{"name": "HF_HOME", "value": "/cache"}],
                    "volumes": [A_VOLUME, {"name": "data", "configMap": {"name": "data"}}],
                    "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
                    "resources": {
                        "trainer": {"cpu": "4", "memory": "16Gi"},
                        "inference": {"cpu": "4"},
                    },
                    "imagePullSecrets": ["registry"],
                },
            }
        },
        "traces": {
            "spec.runtime.telemetry": {"traces": {"endpoint": "https://otel.example.com/eu"}}
        },
        "every trajectory traced": {
            "spec.runtime.telemetry": {
                "traces": {"endpoint": "http://otel-collector:4318", "sampleRatio": 1}
            }
        },
        "limits of time": {
            "spec.suspend": True,
            "spec.startupDeadlineSeconds": 60,
            "spec.activeDeadlineSeconds": 3600,
            "spec.ttlSecondsAfterFinished": 0,
        },
        "few restarts": {"spec.failurePolicy.maxRestarts": 0},
        "every part of the failure policy": {
            "spec.failurePolicy": {
                "maxRestarts": 5,
                "windowSeconds": 3600,
                "nodeLostSeconds": 60,
                "rules": [
                    {"role": "trainer", "action": "Fail", "onExitCodes": [42, 43]},
                    {
                        "name": "memory",
                        "role": "trainer",
                        "action": "Replan",
                        "onReasons": ["OOMKilled", "Evicted", "PodLost"],
                    },
                    {"role": "rollout", "action": "RestartPod", "maxRestarts": 100},
                    {"role": "coordinator", "action": "RestartJob"},
                    {"role": "inference", "action": "RestartPod"},
                    {"role": "rollout", "action": "RestartRole"},
                ],
            }
        },
        "every deadline": {
            "spec.unschedulableDeadlineSeconds": 1,
            "spec.progressDeadlineSeconds": 1,
            "spec.releaseDeadlineSeconds": 1,
        },
        "a priority": {"spec.scheduling.priorityClassName": "high"},
        "a name of 40 characters": {"metadata.name": "a" * 40},
    }.items()
]


def a_case(name: str, changes: Mapping[str, Any], *said: str) -> Any:
    """A job that is wrong by these changes, and what the messages must say."""
    return pytest.param(a_job(changes), said, id=name)
