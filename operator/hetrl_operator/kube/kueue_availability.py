"""The check whether the cluster serves Kueue's Workloads, made once before watches start."""

import asyncio
import logging

from hetrl_operator.kube.client import KubernetesApi
from hetrl_operator.model.kueue.admission import NOT_STARTED
from hetrl_operator.model.kueue.api import API_VERSION, PATH

log = logging.getLogger(__name__)

_RETRY_SECONDS = 2.0
_NOT_FOUND = 404


async def why_off(api: KubernetesApi, *, is_wanted: bool) -> str:
    """Return why queue labels are ignored; empty if they are not.

    A watch on a kind that is not served would fail for ever, so this is checked first.
    """
    if not is_wanted:
        return NOT_STARTED
    while True:
        reply = await api.request("GET", PATH)
        if reply.is_success:
            kinds = {each.get("name") for each in reply.body.get("resources") or ()}
            if "workloads" in kinds:
                log.info("Kueue: jobs with a label of a queue wait in it: api=%s", API_VERSION)
                return ""
        if reply.is_success or reply.status == _NOT_FOUND:
            why = f"the cluster did not serve Workloads of {API_VERSION} when the operator started"
            log.warning("no Kueue: %s; install Kueue 0.15 or later, and restart the operator", why)
            return why
        log.warning("Kueue: checked again in %.0f s: %s", _RETRY_SECONDS, reply.message)
        await asyncio.sleep(_RETRY_SECONDS)
