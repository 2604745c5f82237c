import json
from typing import Any

import pytest
import yaml

from hetrl_api.crds.crd import KINDS
from hetrl_api.load import read_job
from hetrl_core.task import Role
from hetrl_operator.model.labels import FIELD_MANAGER, JOB_NAME, MANAGED_BY, POOL, ROLE
from hetrl_operator.render.deployment import MORE_METRICS
from hetrl_operator.settings import ElectionSettings, from_environment
from tests.chart.rendering import CHART, ROOT, helm, hooks, of_kind, rendered

pytestmark = pytest.mark.cluster


def the_deployment(*settings: str) -> dict[str, Any]:
    (deployment,) = of_kind("Deployment", *settings)
    return deployment


def pod_of(deployment: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return found


def environment(deployment: dict[str, Any]) -> dict[str, str]:
    (container,) = pod_of(deployment)["containers"]
    from_the_pod = {"metadata.name": "hetrl-0", "status.podIP": "fd00::7"}
    return {
        each["name"]: each["value"]
        if "value" in each
        else from_the_pod[each["valueFrom"]["fieldRef"]["fieldPath"]]
        for each in container["env"]
    }


def test_helm_has_nothing_to_say_against_the_chart() -> None:
    done = helm("lint", "--strict", str(CHART))

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_chart_ships_the_crds_and_never_deletes_them(kind: Any) -> None:
    (crd,) = (
        each
        for each in of_kind("CustomResourceDefinition")
        if each["metadata"]["name"] == kind.crd_name
    )

    annotations, _ = (crd["metadata"].pop(each) for each in ("annotations", "labels"))
    assert annotations == {"helm.sh/resource-policy": "keep"}
    assert crd == yaml.safe_load((ROOT / "crds" / f"{kind.crd_name}.yaml").read_text())


def test_writer_of_jobs_may_write_plans() -> None:
    (edits,) = (each for each in of_kind("ClusterRole") if each["metadata"]["name"] == "hetrl-edit")

    written = {
        kind for rule in edits["rules"] if "create" in rule["verbs"] for kind in rule["resources"]
    }
    assert {"hetrljobs", "hetrlplans"} <= written


def test_crds_can_be_left_to_others() -> None:
    assert not of_kind("CustomResourceDefinition", "crds.install=false")


def test_operator_understands_the_environment_that_it_is_given(tmp_path: Any) -> None:
    given = environment(the_deployment('images.rollout="mine:2"', 'watchNamespaces=["a","b"]'))
    assert given["HETRL_TLS_DIRECTORY"] == "/hetrl/tls"
    (tmp_path / "ca.crt").write_text("PEM")

    settings = from_environment(given | {"HETRL_TLS_DIRECTORY": str(tmp_path)})

    assert settings.pods.images[Role.ROLLOUT] == "mine:2"
    assert settings.pods.images[Role.TRAINER] == "hetrl-trainer:0.2.0"
    assert settings.pods.images[Role.COORDINATOR] == "hetrl-trainer:0.2.0"
    assert settings.pods.progress_url == "https://hetrl.hetrl-system.svc:8443"
    assert settings.namespaces == ("a", "b")
    assert settings.election == ElectionSettings(
        namespace="hetrl-system", lease="hetrl", pod="hetrl-0", address="[fd00::7]:8443"
    )
    ports = settings.endpoints
    assert (ports.metrics_port, ports.health_port, ports.progress_port) == (8080, 8081, 8443)


def test_service_leads_to_the_ports_that_the_operator_opens() -> None:
    (service,) = of_kind("Service")
    (container,) = pod_of(the_deployment())["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    # Health is for the kubelet, which asks the pod itself.
    assert ports.pop("health") == 8081

    assert service["spec"]["selector"].items() <= (
        the_deployment()["spec"]["template"]["metadata"]["labels"].items()
    )
    assert {port["targetPort"]: port["port"] for port in service["spec"]["ports"]} == ports


def test_operators_pod_meets_the_restricted_standard() -> None:
    pod = pod_of(the_deployment())
    (container,) = pod["containers"]

    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_progress_endpoints_certificate_is_for_its_service() -> None:
    (secret,) = of_kind("Secret")

    assert set(secret["data"]) == {"ca.crt", "tls.crt", "tls.key"}
    assert not of_kind("Secret", 'progress.existingSecret="mine"')
    (tls,) = (
        volume
        for volume in pod_of(the_deployment('progress.existingSecret="mine"'))["volumes"]
        if volume["name"] == "tls"
    )
    assert tls["secret"]["secretName"] == "mine"


def rules(name: str) -> list[dict[str, Any]]:
    (role,) = (each for each in of_kind("ClusterRole") if each["metadata"]["name"] == name)
    return list(role["rules"])


def test_roles_have_no_wildcard() -> None:
    for role in of_kind("ClusterRole"):
        assert "*" not in json.dumps(role["rules"]), role["metadata"]["name"]


def test_rights_on_queues_come_with_kueue_alone() -> None:
    def of_kueue(*settings: str) -> list[dict[str, Any]]:
        return [
            rule
            for role in of_kind("ClusterRole", *settings)
            for rule in role["rules"]
            if "kueue.x-k8s.io" in rule["apiGroups"]
        ]

    assert not of_kueue()
    assert [(*each["resources"], *each["verbs"]) for each in of_kueue("kueue.enabled=true")] == [
        ("workloadpriorityclasses", "get"),
        ("workloads", "list", "watch", "create", "patch", "delete"),
        ("workloads/status", "patch"),
    ]


def test_operator_writes_secrets_and_never_reads_them() -> None:
    of_secrets = [
        rule
        for name in ("hetrl-fleet", "hetrl-jobs")
        for rule in rules(name)
        if "secrets" in rule["resources"]
    ]

    assert [rule["verbs"] for rule in of_secrets] == [["create", "patch"]]


def test_rights_on_jobs_end_at_the_namespaces_that_are_watched() -> None:
    settings = 'watchNamespaces=["a","b"]'

    of_jobs = [
        each
        for each in of_kind("RoleBinding", settings)
        if each["metadata"]["name"] == "hetrl-jobs"
    ]
    assert [each["metadata"]["namespace"] for each in of_jobs] == ["a", "b"]
    assert [each["metadata"]["name"] for each in of_kind("ClusterRoleBinding", settings)] == [
        "hetrl-fleet"
    ]
    assert {each["metadata"]["name"] for each in of_kind("ClusterRoleBinding")} == {
        "hetrl-fleet",
        "hetrl-jobs",
    }


def test_operator_may_hold_one_lease_and_no_other() -> None:
    (role,) = of_kind("Role")
    settings = from_environment(environment(the_deployment()) | {"HETRL_TLS_DIRECTORY": ""})

    assert settings.election
    assert role["metadata"]["namespace"] == settings.election.namespace
    named = [rule for rule in role["rules"] if "resourceNames" in rule]
    assert [(rule["resourceNames"], rule["verbs"]) for rule in named] == [
        ([settings.election.lease], ["get", "update"])
    ]
    assert [rule["verbs"] for rule in role["rules"] if rule not in named] == [["create"]]


def test_disruption_budget_leaves_one_of_several_replicas() -> None:
    (budget,) = of_kind("PodDisruptionBudget")

    assert the_deployment()["spec"]["replicas"] == 2
    assert budget["spec"]["maxUnavailable"] == 1
    assert not of_kind("PodDisruptionBudget", "replicas=1")


def test_bindings_are_of_the_pods_account() -> None:
    account = pod_of(the_deployment())["serviceAccountName"]

    for binding in of_kind("ClusterRoleBinding"):
        assert [each["name"] for each in binding["subjects"]] == [account]


def test_pod_monitors_come_where_prometheus_is() -> None:
    assert not of_kind("PodMonitor")
    assert not of_kind("PodMonitor", 'metrics.podMonitor.enabled="never"')
    assert len(of_kind("PodMonitor", 'metrics.podMonitor.enabled="always"')) == 2


def test_pod_monitors_select_what_the_operator_labels() -> None:
    own, jobs = of_kind("PodMonitor", 'metrics.podMonitor.enabled="always"')

    labels = the_deployment()["spec"]["template"]["metadata"]["labels"]
    assert own["spec"]["selector"]["matchLabels"].items() <= labels.items()
    # A job's pod must not look like the operator's, nor the reverse.
    assert labels[MANAGED_BY] != FIELD_MANAGER
    assert jobs["spec"]["selector"]["matchLabels"] == {MANAGED_BY: FIELD_MANAGER}
    first, *more = jobs["spec"]["podMetricsEndpoints"]
    labelled = [_meta(label) for label in (JOB_NAME, ROLE, POOL)]
    assert [each["sourceLabels"] for each in first["relabelings"]] == labelled
    # What runs beside a pod's own program has another role than the pod's label says.
    assert {each["port"]: each["relabelings"][1] for each in more} == {
        port: {"replacement": role.value, "targetLabel": "role"}
        for role, (port, _) in MORE_METRICS.items()
    }
    for each in more:
        job, _, pool = each["relabelings"]
        assert [job["sourceLabels"], pool["sourceLabels"]] == [_meta(JOB_NAME), _meta(POOL)]


def _meta(label: str) -> list[str]:
    return [f"__meta_kubernetes_pod_label_{label.translate(str.maketrans('./-', '___'))}"]


def test_network_policy_admits_only_required_clients() -> None:
    assert not of_kind("NetworkPolicy")
    prometheus = '[{"namespaceSelector":{"matchLabels":{"name":"monitoring"}}}]'
    (policy,) = of_kind(
        "NetworkPolicy", "networkPolicy.enabled=true", f"networkPolicy.metricsFrom={prometheus}"
    )
    progress, health, metrics = policy["spec"]["ingress"]
    replicas, coordinators = progress["from"]
    assert policy["spec"]["podSelector"] == replicas["podSelector"]
    assert coordinators["podSelector"]["matchLabels"] == {
        MANAGED_BY: FIELD_MANAGER,
        ROLE: Role.COORDINATOR.value,
    }
    assert metrics["from"] == json.loads(prometheus)
    # The kubelet asks from addresses that no selector names.
    assert health == {"ports": [{"port": "health", "protocol": "TCP"}]}
    (deployment,) = of_kind("Deployment")
    (container,) = pod_of(deployment)["containers"]
    named = {each["name"] for each in container["ports"]}
    assert {each["port"] for rule in (progress, health, metrics) for each in rule["ports"]} <= named


def test_helm_test_pod_is_cleaned_up_and_is_no_operator() -> None:
    kinds = {each["kind"]: each for each in hooks()}
    assert set(kinds) == {"ServiceAccount", "Role", "RoleBinding", "ConfigMap", "Pod"}
    for each in kinds.values():
        assert (
            "before-hook-creation" in each["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
        )
    (service,) = of_kind("Service")
    labels = kinds["Pod"]["metadata"]["labels"]
    assert not service["spec"]["selector"].items() <= labels.items()
    read_job(kinds["ConfigMap"]["data"]["job.yaml"])


def test_dashboards_are_config_maps_that_grafanas_sidecar_finds() -> None:
    found = {name: each for each in of_kind("ConfigMap") for name in each["data"]}

    assert set(found) == {"fleet.json", "job.json", "operator.json"}
    for name, each in found.items():
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert each["metadata"]["annotations"]["grafana_folder"] == "HetRL"
        assert json.loads(each["data"][name])["uid"] == f"hetrl-{name.removesuffix('.json')}"
    assert not of_kind("ConfigMap", "dashboards.enabled=false")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("workers=0", "workers"),
        ('image={"pullPolicy":"Sometimes"}', "pullPolicy"),
        ("wrkers=3", "wrkers"),
        ('metrics.podMonitor.enabled="perhaps"', "enabled"),
        ("planner.memoryMiB=1", "memoryMiB"),
    ],
    ids=[
        "too few workers",
        "an unknown policy",
        "an unknown value",
        "an unknown word",
        "too little",
    ],
)
def test_wrong_values_are_refused_by_name(setting: str, said: str) -> None:
    done = helm("template", "hetrl", str(CHART), "--set-json", setting)

    assert done.returncode != 0
    assert said in done.stderr


def test_values_have_a_default_and_a_description() -> None:
    text = (CHART / "values.yaml").read_text()
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load(text)

    assert set(values) == set(schema["properties"]) - {"global"}
    for line, following in zip(text.splitlines(), text.splitlines()[1:], strict=False):
        is_leaf = following.strip() and not following.strip().startswith(("#", "-"))
        in_free_map = following.startswith(("    cpu", "    memory:"))
        if is_leaf and ":" in following and not in_free_map and following.split(":")[1].strip():
            assert line.strip().startswith("#"), following


def test_objects_carry_the_charts_labels_and_the_users() -> None:
    common = ('commonLabels={"team":"rl"}', 'commonAnnotations={"cost":"research"}')
    for each in rendered(
        'metrics.podMonitor.enabled="always"',
        'alerts.enabled="always"',
        "networkPolicy.enabled=true",
        *common,
    ):
        for metadata in (each["metadata"], *pods_of(each)):
            assert metadata["labels"]["app.kubernetes.io/part-of"] == "hetrl", each
            assert metadata["labels"]["team"] == "rl", each
            assert metadata["annotations"]["cost"] == "research", each


def pods_of(manifest: Any) -> list[Any]:
    is_deployment = manifest["kind"] == "Deployment"
    return [manifest["spec"]["template"]["metadata"]] if is_deployment else []


def test_pod_labels_of_users_do_not_hide_selector() -> None:
    given = ('podLabels={"app.kubernetes.io/name":"mine","own":"1"}', 'commonLabels={"own":"2"}')
    (found,) = (each for each in rendered(*given) if each["kind"] == "Deployment")
    labels = found["spec"]["template"]["metadata"]["labels"]
    assert found["spec"]["selector"]["matchLabels"].items() <= labels.items()
