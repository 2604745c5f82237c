"""From a job and its plan to manifests: JSON in, JSON out, and the same for the same input.

Each kind of object has a file. Whether and when an object is written is ``decide``'s;
certificates are made where they are written, because they are not a function of the plan.
"""

from hetrl_operator.render.children import certificates, children, identity
from hetrl_operator.render.deployment import Deployment
from hetrl_operator.render.digests import digests
from hetrl_operator.render.plan import plan_manifest

__all__ = ["Deployment", "certificates", "children", "digests", "identity", "plan_manifest"]
