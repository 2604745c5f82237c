"""The StatefulSet controller as far as decisions are concerned: sets in, pods out, at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from hetrl_operator.model.observed import PodSeen
from hetrl_operator.model.parse import pod_seen


@dataclass(slots=True)
class StatefulSetController:
    """Makes pods, each with a uid that no other has had."""

    num_made: int = 0

    def synced(
        self, sets: Mapping[str, Mapping[str, Any]], pods: Mapping[str, PodSeen], *, now: datetime
    ) -> dict[str, PodSeen]:
        """Return the pods that the sets want: those of ``pods`` that they do, new ones else."""
        wanted = {
            f"{name}-{ordinal}": (manifest, ordinal)
            for name, manifest in sets.items()
            for ordinal in range(manifest["spec"]["replicas"])
        }
        kept = {name: pod for name, pod in pods.items() if name in wanted}
        made = {
            name: self._pod(name, manifest, ordinal, now)
            for name, (manifest, ordinal) in wanted.items()
            if name not in kept
        }
        return kept | made

    def _pod(self, name: str, manifest: Mapping[str, Any], ordinal: int, now: datetime) -> PodSeen:
        self.num_made += 1
        template, labels = manifest["spec"]["template"], manifest["metadata"]["labels"]
        body = {
            "metadata": {
                **template["metadata"],
                "name": name,
                "labels": labels,
                "ownerReferences": [
                    {
                        "kind": "StatefulSet",
                        "name": manifest["metadata"]["name"],
                        "uid": manifest["metadata"]["name"],
                        "controller": True,
                    }
                ],
                "uid": f"pod-{self.num_made}",
                "creationTimestamp": now.isoformat(),
            },
            "spec": template["spec"],
        }
        pod = pod_seen(body)
        assert pod
        assert pod.ordinal == ordinal
        return pod
