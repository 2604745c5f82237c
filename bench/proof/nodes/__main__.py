"""``python -m bench.proof.nodes``: both stories on one cluster of three nodes, and their page."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.proof.commit import commit, machine
from bench.proof.nodes.lost import lost
from bench.proof.nodes.preempted import preempted
from bench.proof.nodes.timeline import Timeline
from e2e.cluster.cluster import Cluster
from e2e.cluster.images import build_images
from e2e.cluster.kueue import kueue_on
from e2e.release import install
from e2e.tenant import open_to_pods, tenant_in

PAGE = Path("docs/results/nodes.md")


def main() -> None:
    """Tell the stories; an assertion ends one where something does not hold."""
    build_images()
    nodes = ("a100", "l4", "l4")
    with TemporaryDirectory() as name, Cluster.start(name="proof-nodes", nodes=nodes) as cluster:
        folder = Path(name)
        open_to_pods(folder)
        with kueue_on(cluster, folder / "kueue"):
            install(cluster, folder, {"kueue.enabled": "true"})
            # The lost node comes last: it does not come back.
            with tenant_in(cluster, "queued") as tenant:
                queued = preempted(tenant, folder / "queued")
            with tenant_in(cluster, "moved") as tenant:
                moved = lost(tenant, folder / "moved")
    PAGE.write_text("\n".join(_page((moved, queued))) + "\n")


def _page(stories: Sequence[Timeline]) -> list[str]:
    lines = [
        "# On real nodes",
        "",
        f"`make proof-nodes` at {commit()} on {machine()}: three kubelets that stand for an A100",
        "machine and two of L4s, the chart, and the real Kueue. All pods are on the same cores.",
        "Each line came to hold when it says.",
    ]
    for each in stories:
        lines += ["", f"## {each.title}", "", "| after | |", "|---|---|"]
        lines += [f"| {seconds:.1f} s | {what} |" for seconds, what in each.lines]
    return lines


if __name__ == "__main__":
    main()
