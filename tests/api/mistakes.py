"""Jobs that are wrong, and what both who judge them must say of each."""

from tests.api.contradictions import CONTRADICTIONS
from tests.api.objects import A_VOLUME, QWEN3_8B, REMOVED, a_case

INVALID_JOBS = [
    *CONTRADICTIONS,
    # Names that are ours.
    a_case(
        "our label",
        {"spec.runtime.podTemplate.labels": {"hetrl.dev/role": "trainer"}},
        "labels must not begin with hetrl.dev/",
    ),
    a_case(
        "our annotation",
        {"spec.runtime.podTemplate.annotations": {"hetrl.dev/x": "y"}},
        "annotations must not begin with hetrl.dev/",
    ),
    a_case(
        "our variable",
        {"spec.runtime.podTemplate.env": [{"name": "HETRL_X", "value": "y"}]},
        "env names must not begin with HETRL_",
    ),
    a_case(
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
    a_case(
        "our volume",
        {"spec.runtime.podTemplate.volumes": [{"name": "hetrl-tls", "emptyDir": {}}]},
        "volumes names must not begin with hetrl",
    ),
    a_case(
        "our folder",
        {
            "spec.runtime.podTemplate.volumes": [A_VOLUME],
            "spec.runtime.podTemplate.volumeMounts": [{"name": "cache", "mountPath": "/hetrl/tls"}],
        },
        "volumeMounts must not lie below /hetrl",
    ),
    *(
        a_case(
            f"our folder as {path}",
            {
                "spec.runtime.podTemplate.volumes": [A_VOLUME],
                "spec.runtime.podTemplate.volumeMounts": [{"name": "cache", "mountPath": path}],
            },
            "volumeMounts must have paths without //, /./ and /../",
        )
        for path in ("//hetrl/tls", "/tmp/../hetrl/tls", "/./hetrl/tls", "/a//b", "/a/..")
    ),
    a_case(
        "a mount of no volume",
        {"spec.runtime.podTemplate.volumeMounts": [{"name": "cache", "mountPath": "/cache"}]},
        "volumeMounts must name volumes of",
    ),
    # Names and limits.
    a_case(
        "a name of 41 characters",
        {"metadata.name": "a" * 41},
        "metadata.name must have at most 40 characters (names of pods and labels are longer), "
        "got 41",
    ),
    a_case(
        "a name with a dot",
        {"metadata.name": "a.b"},
        "metadata.name must match ^[a-z]([-a-z0-9]*[a-z0-9])?$",
    ),
    # What only one algorithm has.
    a_case(
        "a critic for GRPO",
        {"spec.algorithm": {"critic": {"discount": 0.99}}},
        "spec.algorithm.critic needs spec.algorithm.type PPO, got GRPO",
    ),
    a_case(
        "groups compared by PPO",
        {"spec.algorithm": {"type": "PPO", "advantage": "GroupNormalised"}},
        "spec.algorithm.advantage needs spec.algorithm.type GRPO, got PPO",
    ),
    a_case(
        "nothing left after the critic's warm-up",
        {"spec.algorithm": {"type": "PPO", "critic": {"warmUpSteps": 5}}},
        "spec.algorithm.critic.warmUpSteps must be < spec.training.steps (5), got 5",
    ),
    *(
        a_case(
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
    a_case("no steps", {"spec.training.steps": 0}, "spec.training.steps", "0", "1"),
    a_case(
        "traces to nowhere",
        {"spec.runtime.telemetry": {"traces": {}}},
        "spec.runtime.telemetry.traces.endpoint",
    ),
    a_case(
        "traces by gRPC",
        {"spec.runtime.telemetry": {"traces": {"endpoint": "grpc://otel:4317"}}},
        "spec.runtime.telemetry.traces.endpoint",
        "grpc://otel:4317",
    ),
    a_case(
        "more traces than trajectories",
        {
            "spec.runtime.telemetry": {
                "traces": {"endpoint": "http://otel:4318", "sampleRatio": 1.5}
            }
        },
        "spec.runtime.telemetry.traces.sampleRatio",
        "1.5",
    ),
    a_case("no model", {"spec.model": REMOVED}, "spec.model"),
    a_case("a step of text", {"spec.training.steps": "ten"}, "spec.training.steps"),
    a_case("half a step", {"spec.training.steps": 0.5}, "spec.training.steps"),
    a_case(
        "no name for a reward", {"spec.data.reward": "My Vibes"}, "spec.data.reward", "My Vibes"
    ),
    a_case("an unknown tool", {"spec.data.tools": ["shell"]}, "spec.data.tools", "shell"),
    a_case(
        "a penalty of nothing",
        {"spec.data.lengthPenalty": {"bufferTokens": 8, "weight": 0}},
        "spec.data.lengthPenalty.weight",
        "0",
    ),
    a_case(
        "no memory for code",
        {
            "spec.data.reward": "python",
            "spec.data.python": {"source": {"path": "x"}, "memoryMiB": 8},
        },
        "spec.data.python.memoryMiB",
        "64",
    ),
    a_case(
        "a function that is none",
        {
            "spec.data.reward": "python",
            "spec.data.python": {"source": {"path": "x"}, "function": "a.b"},
        },
        "spec.data.python.function",
        "a.b",
    ),
    a_case("a nameless column", {"spec.data.questionField": ""}, "spec.data.questionField", "1"),
    a_case("too stale", {"spec.algorithm.maxStaleness": 65}, "spec.algorithm.maxStaleness", "64"),
    a_case(
        "a bound below on-policy",
        {"spec.algorithm.maxStaleness": -1},
        "spec.algorithm.maxStaleness",
        "-1",
        "0",
    ),
    *(
        a_case(f"{name} of {length}", {f"spec.data.{name}": length}, f"spec.data.{name}", "1")
        for name in ("maxPromptTokens", "maxResponseTokens", "meanResponseTokens")
        for length in (0, -8)
    ),
    *(
        a_case(
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
    a_case(
        "a model of no layer",
        {"spec.model.architecture": {**QWEN3_8B, "layers": 0}},
        "spec.model.architecture.layers",
        "1",
    ),
    a_case(
        "a budget that pays", {"spec.resources.budgetPerHour": -1}, "spec.resources.budgetPerHour"
    ),
    a_case(
        "no pace",
        {"spec.planning.objective": {"cost": {"requiredSamplesPerSecond": 0}}},
        "spec.planning.objective.cost.requiredSamplesPerSecond",
    ),
    a_case("no temperature", {"spec.algorithm.temperature": 0}, "spec.algorithm.temperature", "0"),
    a_case("a free budget", {"spec.resources.budgetPerHour": 0}, "spec.resources.budgetPerHour"),
    a_case(
        "an upward path",
        {"spec.data.prompts": {"claim": {"name": "a", "path": "../b"}}},
        "spec.data.prompts.claim.path",
        "../b",
    ),
    a_case("a bad hub id", {"spec.model.source": {"hub": "qwen"}}, "spec.model.source.hub", "qwen"),
    a_case(
        "a bad memory size",
        {"spec.runtime.podTemplate.resources": {"trainer": {"memory": "lots"}}},
        "spec.runtime.podTemplate.resources.trainer.memory",
        "lots",
    ),
    a_case(
        "an unknown field",
        {"spec.training.step": 3},
        "spec.training.step",
    ),
    a_case(
        "33 pools",
        {"spec.resources.pools": [{"name": f"p{n}"} for n in range(33)]},
        "spec.resources.pools",
        "32",
    ),
    a_case(
        "two pools of one name",
        {"spec.resources.pools": [{"name": "p"}, {"name": "p"}]},
        "spec.resources.pools[1]",
        "p",
    ),
]
