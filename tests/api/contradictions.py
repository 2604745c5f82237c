"""Jobs whose fields contradict each other, or ask for what is not supported yet."""

from tests.api.objects import QWEN3_8B, REMOVED, a_case

CONTRADICTIONS = [
    # What is not supported yet is refused, and the message names the field.
    a_case(
        "a model by uri",
        {"spec.model.source": {"uri": "s3://bucket/model"}},
        "spec.model.source.uri is not supported yet",
    ),
    a_case(
        "a secret for the model",
        {"spec.model.secretRef": {"name": "token"}},
        "spec.model.secretRef is not supported yet",
    ),
    a_case(
        "prompts of the hub, but not which",
        {"spec.data.prompts": {"hub": "openai/gsm8k"}},
        "spec.data.files must be set if and only if spec.data.prompts.hub is",
    ),
    a_case(
        "files of no data set",
        {"spec.data.files": "main/train-*.parquet"},
        "spec.data.files must be set if and only if spec.data.prompts.hub is",
    ),
    a_case(
        "a revision of no data set",
        {"spec.data.revision": "main"},
        "spec.data.revision needs spec.data.prompts.hub",
    ),
    a_case(
        "one data set and several",
        {"spec.data.sets": [{"name": "a", "prompts": {"hub": "x/y"}, "files": "x.jsonl"}]},
        "spec.data must set exactly one of prompts and sets",
    ),
    a_case(
        "no data",
        {"spec.data.prompts": REMOVED},
        "spec.data must set exactly one of prompts and sets",
    ),
    a_case(
        "a data set of the hub without files",
        {
            "spec.data.prompts": REMOVED,
            "spec.data.sets": [{"name": "a", "prompts": {"hub": "x/y"}}],
        },
        "spec.data.sets[a].files must be set if and only if spec.data.sets[a].prompts.hub is",
    ),
    a_case(
        "data sets of one name",
        {
            "spec.data.prompts": REMOVED,
            "spec.data.sets": [
                {"name": "a", "prompts": {"hub": "x/y"}, "files": "x.jsonl"},
                {"name": "a", "prompts": {"hub": "x/z"}, "files": "x.jsonl"},
            ],
        },
        "spec.data.sets",
        "a",
    ),
    a_case(
        "a template without a place for the question",
        {"spec.data.promptTemplate": "Answer: {prompt}"},
        "spec.data.promptTemplate must contain {question}",
    ),
    a_case("an unknown layout", {"spec.data.format": "verk"}, "spec.data.format", "verk"),
    a_case(
        "prompts by a uri of no store",
        {"spec.data.prompts": {"uri": "ftp://host/x"}},
        "spec.data.prompts.uri must name an object",
        "got ftp://host/x",
    ),
    a_case(
        "a bucket without an object",
        {"spec.data.prompts": {"uri": "s3://bucket/"}},
        "spec.data.prompts.uri must name an object",
        "got s3://bucket/",
    ),
    a_case(
        "a pattern on a web server",
        {"spec.data.prompts": {"uri": "https://host/x-*.parquet"}},
        "spec.data.prompts.uri must not be a pattern",
    ),
    a_case(
        "checkpoints by uri",
        {"spec.storage.checkpoints": {"uri": "s3://bucket/x"}},
        "spec.storage.checkpoints.uri is not supported yet",
    ),
    a_case(
        "a manual job without a plan",
        {"spec.planning.mode": "Manual"},
        "spec.planning.planRef must be set if and only if spec.planning.mode is Manual, "
        "got mode Manual",
    ),
    a_case(
        "a plan without mode Manual",
        {"spec.planning.planRef": "mine"},
        "spec.planning.planRef must be set if and only if spec.planning.mode is Manual, "
        "got mode Auto",
    ),
    a_case(
        "a long history",
        {"spec.planning.historyLimit": 11},
        "spec.planning.historyLimit",
    ),
    a_case(
        "a window of no time",
        {"spec.planning.replan": {"stabilityWindowSeconds": 0}},
        "spec.planning.replan.stabilityWindowSeconds",
    ),
    a_case(
        "trajectories by process group",
        {"spec.runtime.transport": {"trajectories": "ProcessGroup"}},
        "spec.runtime.transport.trajectories ProcessGroup is not supported yet",
    ),
    a_case(
        "many restarts within a window",
        {"spec.failurePolicy": {"windowSeconds": 60, "maxRestarts": 101}},
        "spec.failurePolicy.maxRestarts must be <= 100 with windowSeconds, got 101",
    ),
    a_case(
        "many restarts by a rule",
        {
            "spec.failurePolicy.rules": [
                {"role": "rollout", "action": "RestartPod", "maxRestarts": 101}
            ]
        },
        "spec.failurePolicy.rules.maxRestarts must be <= 100",
    ),
    a_case("a queue", {"spec.scheduling.queue": "q"}, "spec.scheduling.queue is not supported yet"),
    a_case(
        "a gang scheduler",
        {"spec.scheduling.gang": {"provider": "volcano"}},
        "spec.scheduling.gang is not supported yet",
    ),
    a_case(
        "a controller without a domain",
        {"spec.managedBy": "multikueue"},
        "spec.managedBy must be a domain and a name, as hetrl.dev/operator, got multikueue",
    ),
    # Unions.
    a_case(
        "no source",
        {"spec.model.source": {}},
        "spec.model.source must set exactly one of path, hub, claim, uri",
    ),
    a_case(
        "two sources",
        {"spec.data.prompts": {"path": "x", "claim": {"name": "y"}}},
        "spec.data.prompts must set exactly one of path, hub, claim, uri",
    ),
    a_case(
        "a pattern for another reward",
        {"spec.data.regex": {"pattern": "x"}},
        "spec.data.regex must be set if and only if spec.data.reward is regex, got reward math",
    ),
    a_case(
        "no pattern",
        {"spec.data.reward": "regex"},
        "spec.data.regex must be set if and only if spec.data.reward is regex, got reward regex",
    ),
    a_case(
        "settings of math for another reward",
        {"spec.data.reward": "exact", "spec.data.math": {"answerForms": ["Boxed"]}},
        "spec.data.math needs spec.data.reward math, got reward exact",
    ),
    a_case(
        "no such form of an answer",
        {"spec.data.math": {"answerForms": ["Box"]}},
        "spec.data.math.answerForms",
        "Boxed",
    ),
    a_case(
        "one reward and several",
        {"spec.data.reward": "exact", "spec.data.rewards": [{"name": "a"}]},
        "spec.data.rewards takes the place of spec.data.reward and its settings",
    ),
    a_case(
        "a reward's name twice",
        {"spec.data.rewards": [{"name": "a"}, {"name": "a", "reward": "exact"}]},
        "spec.data.rewards must not have a name twice",
    ),
    a_case(
        "a reward without its pattern",
        {"spec.data.rewards": [{"name": "form", "reward": "regex"}]},
        "spec.data.rewards[form].regex must be set if and only if the reward there is regex",
    ),
    a_case(
        "a reward without its model",
        {"spec.data.rewards": [{"name": "liked", "reward": "model"}]},
        "spec.data.model must be set if and only if spec.data.reward is model",
    ),
    a_case(
        "a source twice",
        {"spec.data.rewards": [{"name": "a", "sources": ["x", "x"]}]},
        "spec.data.rewards[a].sources must not name a source twice",
    ),
    a_case(
        "a function of the hub among rewards",
        {
            "spec.data.rewards": [
                {"name": "a", "reward": "python", "python": {"source": {"hub": "a/b"}}}
            ]
        },
        "spec.data.rewards[].python.source.hub is not supported yet",
    ),
    a_case(
        "a weight beyond all bounds",
        {"spec.data.rewards": [{"name": "a", "weight": 2e6}]},
        "spec.data.rewards",
        "weight",
    ),
    a_case(
        "no code",
        {"spec.data.reward": "python"},
        "spec.data.python must be set if and only if spec.data.reward is python",
    ),
    a_case(
        "code from nowhere",
        {"spec.data.reward": "python", "spec.data.python": {"source": {}}},
        "spec.data.python.source must set exactly one of path, hub, claim, uri",
    ),
    a_case(
        "code of the hub",
        {"spec.data.reward": "python", "spec.data.python": {"source": {"hub": "a/b"}}},
        "spec.data.python.source.hub is not supported yet",
    ),
    a_case(
        "a penalty for every response and more",
        {"spec.data.lengthPenalty": {"bufferTokens": 1025}},
        "spec.data.lengthPenalty.bufferTokens must be <= maxResponseTokens (1024), got 1025",
    ),
    a_case(
        "one tool twice",
        {"spec.data.tools": ["calculator", "calculator"]},
        "spec.data.tools must not name a tool twice",
    ),
    a_case(
        "two objectives",
        {"spec.planning.objective": {"throughput": {}, "cost": {"requiredSamplesPerSecond": 1}}},
        "spec.planning.objective must set exactly one of throughput, cost, deadline",
    ),
    a_case(
        "a volume of nothing",
        {"spec.runtime.podTemplate.volumes": [{"name": "x"}]},
        "volumes must each set exactly one of persistentVolumeClaim, configMap, emptyDir",
    ),
    # Fields that contradict each other.
    a_case(
        "synchronous but stale",
        {"spec.algorithm": {"mode": "Sync", "maxStaleness": 2}},
        "spec.algorithm.maxStaleness must be 0 when spec.algorithm.mode is Sync, got 2",
    ),
    a_case(
        "a group of one",
        {"spec.algorithm": {"groupSize": 1}},
        "spec.algorithm.groupSize must be >= 2 with spec.algorithm.type GRPO, which compares the "
        "trajectories of one prompt, got 1",
    ),
    a_case(
        "a group of one without others",
        {"spec.algorithm": {"groupSize": 1, "advantage": "LeaveOneOut"}},
        "spec.algorithm.groupSize must be >= 2 with spec.algorithm.type GRPO, which compares the "
        "trajectories of one prompt, got 1",
    ),
    a_case(
        "a group cut in two",
        {"spec.algorithm": {"groupSize": 7, "globalBatchSize": 64}},
        "spec.algorithm.globalBatchSize (64) must be a multiple of groupSize (7)",
    ),
    a_case(
        "unequal minibatches",
        {"spec.algorithm": {"minibatches": 3, "globalBatchSize": 64}},
        "spec.algorithm.globalBatchSize (64) must be a multiple of minibatches (3)",
    ),
    a_case(
        "heads that do not divide",
        {"spec.model.architecture": {**QWEN3_8B, "queryHeads": 30}},
        "spec.model.architecture.queryHeads (30) must be a multiple of kvHeads (8)",
    ),
    a_case(
        "a revision of a folder",
        {"spec.model.revision": "main"},
        "spec.model.revision needs spec.model.source.hub",
    ),
    a_case(
        "a mean above the most",
        {"spec.data.maxResponseTokens": 64, "spec.data.meanResponseTokens": 65},
        "spec.data.meanResponseTokens must be <= maxResponseTokens (64), got 65",
    ),
    a_case(
        "a folder of no claim",
        {"spec.storage.checkpoints": {"path": "x"}},
        "spec.storage.checkpoints.path needs spec.storage.checkpoints.persistentVolumeClaim",
    ),
    a_case(
        "most below fewest",
        {"spec.rollout": {"minReplicas": 4, "maxReplicas": 2}},
        "spec.rollout.maxReplicas must be >= minReplicas (4), got 2",
    ),
    a_case(
        "scaled below the fewest",
        {"spec.rollout": {"minReplicas": 4, "replicas": 2}},
        "spec.rollout.replicas must be 0 or >= minReplicas (4), got 2",
    ),
    a_case(
        "scaled above the most",
        {"spec.rollout": {"maxReplicas": 4, "replicas": 5}},
        "spec.rollout.replicas must be <= maxReplicas (4), got 5",
    ),
]
