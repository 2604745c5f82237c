"""`python -m e2e.cluster`: build, up, down, status, kubeconfig, images, import-image."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from pathlib import Path

from e2e.cluster.build import build_all, program
from e2e.cluster.cluster import Cluster, control_plane, tear_down
from e2e.cluster.errors import ClusterError
from e2e.cluster.images import IMAGES, build_images
from e2e.cluster.machines import KINDS, NodePool, evenly, pools_from_file
from e2e.cluster.nodes import load_archive, load_images
from e2e.cluster.state import ClusterState, clusters, find
from e2e.cluster.volumes import make_volumes


def main() -> int:
    arguments = _parser().parse_args()
    try:
        arguments.command(arguments)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster", description=__doc__)
    commands = parser.add_subparsers(required=True)

    build = commands.add_parser("build", help="build the Go programs into the cache")
    build.set_defaults(command=lambda _: build_all())

    up = commands.add_parser("up", help="start a cluster that runs until `down`")
    up.add_argument("--name", default="default")
    known = ",".join(KINDS)
    up.add_argument("--nodes", default="a100,l4", help=f"real nodes, of {known}; or `none`")
    up.add_argument("--fake-nodes", default="0", help="a number, or a YAML file of pools")
    up.set_defaults(command=_up)

    images = commands.add_parser("images", help="build HetRL's images, load them into clusters")
    images.set_defaults(command=_images)

    import_image = commands.add_parser("import-image", help="load an image archive")
    import_image.add_argument("archive", type=Path)
    import_image.add_argument("--name", default="default")
    import_image.set_defaults(command=_import_image)

    for name, command, text in (
        ("down", _down, "stop a cluster; nothing of it stays"),
        ("kubeconfig", _kubeconfig, "print the path of a cluster's kubeconfig"),
    ):
        subparser = commands.add_parser(name, help=text)
        subparser.add_argument("--name", default="default")
        subparser.set_defaults(command=command)

    status = commands.add_parser("status", help="list the clusters of this machine")
    status.set_defaults(command=_status)
    return parser


def _up(arguments: argparse.Namespace) -> None:
    running = find(arguments.name)
    if running is not None and not running.is_abandoned:
        _say_how_to_use(running)
        return
    # Standard output is for a shell to evaluate.
    with contextlib.redirect_stdout(sys.stderr):
        build_all()
        started = time.monotonic()
        nodes = () if arguments.nodes == "none" else tuple(arguments.nodes.split(","))
        fake_nodes = _pools(arguments.fake_nodes)
        cluster = Cluster.start(name=arguments.name, nodes=nodes, fake_nodes=fake_nodes)
        assert cluster.state is not None
        if nodes:
            cluster.apply(make_volumes(cluster.state.folder / "volumes"))
        print(f"cluster {arguments.name} is ready after {time.monotonic() - started:.1f} s")
    _say_how_to_use(cluster.state.detached())


def _pools(text: str) -> tuple[NodePool, ...]:
    return evenly(int(text)) if text.isdigit() else pools_from_file(Path(text))


def _say_how_to_use(state: ClusterState) -> None:
    programs = (program("kubectl"), program("helm"), Path(sys.executable).with_name("hetrl"))
    print(f"export PATH={':'.join(str(each.parent) for each in programs)}:$PATH")
    print(f"export KUBECONFIG={control_plane(state).admin_kubeconfig}")


def _images(_: argparse.Namespace) -> None:
    # What runs the images is wanted next; here it may take its minutes, in a test it may not.
    build_all()
    layout = build_images()
    for state in clusters():
        if state.nodes and not state.is_abandoned:
            load_images(state, layout, IMAGES.values())
            print(f"loaded into cluster {state.name}")
    print("\n".join(IMAGES.values()))


def _import_image(arguments: argparse.Namespace) -> None:
    load_archive(_running(arguments.name), arguments.archive)


def _down(arguments: argparse.Namespace) -> None:
    state = find(arguments.name)
    if state is not None:
        tear_down(state)


def _kubeconfig(arguments: argparse.Namespace) -> None:
    print(control_plane(_running(arguments.name)).admin_kubeconfig)


def _running(name: str) -> ClusterState:
    state = find(name)
    if state is None:
        raise ClusterError(f"no cluster {name!r}: start it with `up`")
    return state


def _status(_: argparse.Namespace) -> None:
    for state in clusters():
        condition = "abandoned" if state.is_abandoned else "running"
        nodes = ",".join(state.nodes) or "none"
        print(f"{state.name}\t{condition}\t{control_plane(state).server}\tnodes: {nodes}")
        for process in state.processes.recorded():
            print(f"  {process.name}\t{'running' if process.is_running else 'ended'}")


if __name__ == "__main__":
    sys.exit(main())
