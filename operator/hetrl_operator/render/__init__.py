"""Manifests of a job and its plan, as JSON; equal inputs give equal manifests.

Each kind of object has a file. ``decide`` decides whether an object is written. The writer makes
certificates, since they are not a function of the plan.
"""

from hetrl_operator.render.children import certificates, children, identity
from hetrl_operator.render.deployment import Deployment
from hetrl_operator.render.digests import digests
from hetrl_operator.render.plan import plan_manifest

__all__ = ["Deployment", "certificates", "children", "digests", "identity", "plan_manifest"]
