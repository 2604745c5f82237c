"""HetRL on a cluster of real nodes, installed as a user does, with the images built here."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from e2e.cluster.cluster import Cluster
from e2e.cluster.images import IMAGES

CHART = Path(__file__).parents[1] / "charts" / "hetrl"
SYSTEM = "hetrl-system"
NO_VALUES: Mapping[str, str] = MappingProxyType({})


def install(cluster: Cluster, folder: Path, values: Mapping[str, str] = NO_VALUES) -> None:
    """Package the chart into a folder, install it from there, and wait until it is ready."""
    cluster.helm("package", str(CHART), "--destination", str(folder))
    (package,) = folder.glob("hetrl-*.tgz")
    repository, _, tag = IMAGES["operator"].rpartition(":")
    settings = {
        "image.repository": repository,
        "image.tag": tag,
        "images.trainer": IMAGES["trainer"],
        "images.rollout": IMAGES["rollout"],
        **values,
    }
    options = [f"--set={name}={value}" for name, value in settings.items()]
    cluster.helm(
        "upgrade",
        "--install",
        "hetrl",
        str(package),
        "--namespace",
        SYSTEM,
        "--create-namespace",
        "--wait",
        "--timeout=5m",
        *options,
    )
