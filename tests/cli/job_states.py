"""Statuses of jobs."""

RUNNING = {
    "phase": "Running",
    "conditions": [
        {
            "type": "Degraded",
            "status": "True",
            "reason": "RolloutBelowDesired",
            "message": "1 of 2 rollout pods are ready",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        },
    ],
    "plan": {"name": "tiny-plan", "hash": "0", "dollarsPerHour": 3.5},
    "progress": {
        "step": 5,
        "totalSteps": 20,
        "samplesPerSecond": 12.5,
        "policyVersion": 5,
        "stalenessP95": 2.0,
        "reward": 0.625,
        "etaSeconds": 90.0,
    },
    "trainer": {"replicas": 1, "readyReplicas": 1},
    "rollout": {"replicas": 2, "readyReplicas": 1},
    "podSets": [
        {
            "name": "rollout-l4",
            "role": "rollout",
            "gpuKind": "L4",
            "replicas": 2,
            "readyReplicas": 1,
        },
    ],
}
