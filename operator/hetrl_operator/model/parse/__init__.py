"""Readers of Kubernetes objects: their JSON becomes the values that decisions use.

Each function reads one object as the API server returns it, and keeps only the fields in use, so
that thousands of objects fit into memory. ``parse_spec`` reads a job's spec.
"""

from hetrl_operator.model.parse.child import child_seen
from hetrl_operator.model.parse.job import job_seen, key_of_job
from hetrl_operator.model.parse.node import lost_since, slim_node
from hetrl_operator.model.parse.objects import Body, JobKey, key_of_owner
from hetrl_operator.model.parse.plan import key_of_plan, plan_seen
from hetrl_operator.model.parse.pod import EVICTED_EXIT_CODE, pod_seen, preflight_pod_seen
from hetrl_operator.model.parse.progress import progress_seen

__all__ = [
    "EVICTED_EXIT_CODE",
    "Body",
    "JobKey",
    "child_seen",
    "job_seen",
    "key_of_job",
    "key_of_owner",
    "key_of_plan",
    "lost_since",
    "plan_seen",
    "pod_seen",
    "preflight_pod_seen",
    "progress_seen",
    "slim_node",
]
