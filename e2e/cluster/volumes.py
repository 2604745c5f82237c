"""Shared storage for a cluster that people use: claims of its default class find a volume.

A volume is a folder of this machine, the same on every node. Nothing makes volumes on demand: there
are a few, and each serves one claim. They go with the cluster's folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CLASS = "shared"
_COUNT = 8
_CAPACITY = "10Gi"


def make_volumes(folder: Path) -> str:
    """Make the folders, and return the manifests of their volumes and of the class."""
    folders = [folder / f"volume-{number}" for number in range(_COUNT)]
    for each in folders:
        each.mkdir(parents=True, exist_ok=True)
        # Pods run as a user that this machine need not know.
        each.chmod(0o777)
    return yaml.safe_dump_all([_class(), *_volumes(folders)])


def _class() -> dict[str, Any]:
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS, "annotations": default},
        "provisioner": "kubernetes.io/no-provisioner",
    }


def _volumes(folders: list[Path]) -> Iterator[dict[str, Any]]:
    for folder in folders:
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": folder.name},
            "spec": {
                "storageClassName": CLASS,
                "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                "capacity": {"storage": _CAPACITY},
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": str(folder)},
            },
        }
