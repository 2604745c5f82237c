"""The operator's settings from environment variables, read once in ``__main__``.

Each part is passed to its users; no other module reads the environment.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hetrl_core.task import Role

_PROGRESS_PORT = "HETRL_PROGRESS_PORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSettings:
    """Settings of the pods of every job on this cluster."""

    images: Mapping[Role, str]
    """Default images by role."""

    pull_policy: str = "IfNotPresent"
    progress_url: str = ""
    """``https://host:port`` of the progress endpoint for pods; empty: pods do not report, and only
    the coordinator's end shows progress."""

    progress_authority: str = ""
    """PEM of the authority of the endpoint's certificate."""

    preflight: bool = False
    """Whether a pod checks models, data and reward of a job before it gets GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerSettings:
    """Limits of the planner's worker processes."""

    workers: int = 1
    memory_mib: int = 4096
    """Address space of one worker; a search that needs more ends with PlannerFailed."""

    grace_seconds: float = 60.0
    """Over a job's own time budget, before its worker is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """Ports of the operator's endpoints."""

    metrics_port: int = 8080
    """Metrics, healthz and readyz, in plain HTTP."""

    health_port: int | None = None
    """Healthz and readyz alone, in plain HTTP; None: only at ``metrics_port``."""

    progress_port: int = 9443
    tls_directory: Path | None = None
    """Folder with ``tls.crt``, ``tls.key`` and ``ca.crt``; None: no progress endpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Limits of requests to the API server."""

    requests_per_second: int = 500
    requests_at_once: int = 1000
    """Burst of requests after a quiet time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionSettings:
    """The identity of this replica in leader election."""

    namespace: str
    """Namespace of the Lease."""

    lease: str
    pod: str
    """Name of this replica's pod, or another name that is unique among the replicas."""

    address: str
    """``host:port`` for the other replicas; empty: they cannot reach this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of the operator."""

    pods: PodSettings
    planner: PlannerSettings = field(default_factory=PlannerSettings)
    endpoints: EndpointSettings = field(default_factory=EndpointSettings)
    client: ClientSettings = field(default_factory=ClientSettings)
    election: ElectionSettings | None = None
    """None: this is the only replica, and acts at once."""

    namespaces: tuple[str, ...] = ()
    """Namespaces to serve; none: all of them."""

    kueue: bool = False
    """Whether jobs with a queue label wait in that queue."""

    workers: int = 32
    """Concurrent reconciles; most of their time they wait for the API server."""

    watch_silence_seconds: int = 70
    """Time without an event after which a watch counts as dead. The API server sends a bookmark
    every minute."""

    log_level: str = "INFO"


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Read the settings.

    Raises:
        ValueError: a variable is missing or not what it must be; the message names it.
    """
    tls = environment.get("HETRL_TLS_DIRECTORY", "")
    return Settings(
        pods=_pods(environment, Path(tls) if tls else None),
        planner=PlannerSettings(
            workers=_number(environment, "HETRL_PLANNER_WORKERS", 1),
            memory_mib=_number(environment, "HETRL_PLANNER_MEMORY_MIB", 4096),
            grace_seconds=_number(environment, "HETRL_PLANNER_GRACE_SECONDS", 60),
        ),
        endpoints=EndpointSettings(
            metrics_port=_number(environment, "HETRL_METRICS_PORT", 8080),
            health_port=_health_port(environment),
            progress_port=_number(environment, _PROGRESS_PORT, 9443),
            tls_directory=Path(tls) if tls else None,
        ),
        client=ClientSettings(
            requests_per_second=_number(environment, "HETRL_REQUESTS_PER_SECOND", 500),
            requests_at_once=_number(environment, "HETRL_REQUESTS_AT_ONCE", 1000),
        ),
        election=_election(environment),
        namespaces=_names(environment.get("HETRL_WATCH_NAMESPACES", "")),
        kueue=_switch(environment, "HETRL_KUEUE"),
        workers=_number(environment, "HETRL_WORKERS", 32),
        watch_silence_seconds=_number(environment, "HETRL_WATCH_SILENCE_SECONDS", 70),
        log_level=environment.get("HETRL_LOG_LEVEL", "INFO").upper(),
    )


def _pods(environment: Mapping[str, str], tls: Path | None) -> PodSettings:
    trainer, rollout = (_image(environment, role) for role in (Role.TRAINER, Role.ROLLOUT))
    coordinator = environment.get("HETRL_IMAGE_COORDINATOR") or trainer
    url = environment.get("HETRL_PROGRESS_URL", "")
    if url and not url.startswith("https://"):
        raise ValueError(f"HETRL_PROGRESS_URL must begin with https://, got {url!r}")
    return PodSettings(
        images={
            Role.TRAINER: trainer,
            Role.ROLLOUT: rollout,
            Role.COORDINATOR: coordinator,
            Role.INFERENCE: trainer,
        },
        pull_policy=environment.get("HETRL_IMAGE_PULL_POLICY", "IfNotPresent"),
        progress_url=url.rstrip("/") if tls else "",
        progress_authority=(tls / "ca.crt").read_text() if tls else "",
        preflight=_switch(environment, "HETRL_PREFLIGHT"),
    )


def _health_port(environment: Mapping[str, str]) -> int | None:
    name = "HETRL_HEALTH_PORT"
    return _number(environment, name, 0) if environment.get(name) else None


def _election(environment: Mapping[str, str]) -> ElectionSettings | None:
    namespace, pod = environment.get("HETRL_LEASE_NAMESPACE", ""), environment.get("HETRL_POD", "")
    if not namespace:
        return None
    if not pod:
        raise ValueError("HETRL_POD must name this replica when HETRL_LEASE_NAMESPACE is set")
    host, port = environment.get("HETRL_POD_IP", ""), _number(environment, _PROGRESS_PORT, 9443)
    if ":" in host:
        host = f"[{host}]"
    return ElectionSettings(
        namespace=namespace,
        lease=environment.get("HETRL_LEASE", "") or "hetrl-operator",
        pod=pod,
        address=f"{host}:{port}" if host else "",
    )


def _image(environment: Mapping[str, str], role: Role) -> str:
    name = f"HETRL_IMAGE_{role.upper()}"
    image = environment.get(name, "")
    if not image:
        raise ValueError(f"{name} must name the image of {role} pods")
    return image


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    if not text:
        return default
    if not text.isdecimal():
        raise ValueError(f"{name} must be a whole number, got {text!r}")
    return int(text)


def _switch(environment: Mapping[str, str], name: str) -> bool:
    text = environment.get(name, "") or "false"
    if text not in {"true", "false"}:
        raise ValueError(f"{name} must be true or false, got {text!r}")
    return text == "true"


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
