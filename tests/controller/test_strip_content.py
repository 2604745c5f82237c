from kopf._cogs.structs import bodies

from hetrl_operator.kopf_adapter.slimming import strip_content
from hetrl_operator.model.parse import job_seen, key_of_job
from tests.controller.values import a_job_object


def test_identity_of_a_stripped_object_and_parsed_values_remain() -> None:
    held = a_job_object()
    held["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    held["status"] = {"conditions": []}
    body = bodies.Body(held)
    seen = job_seen(body)
    before = repr(seen)

    strip_content(body)

    assert key_of_job(body) == (seen.namespace, seen.name)
    assert repr(seen) == before
    assert held["spec"] == held["status"] == {}
    assert "managedFields" not in held["metadata"]
    assert held["kind"] == "HetRLJob"
