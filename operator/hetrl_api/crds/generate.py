"""Generation of ``crds/``, the chart's copies and the reference page.

The command is ``python -m hetrl_api.crds.generate``.

What is written follows from the models alone, so a test can tell when a file is behind.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from hetrl_api.crds.crd import KINDS
from hetrl_api.crds.reference import reference_page

_HEADER = "# Written by `make crds` from operator/hetrl_api; edit the models, not this file.\n"


def generated_files() -> Mapping[str, str]:
    """Return the text of every generated file by its path in the repository."""
    files = {"docs/api.md": reference_page()}
    for kind in KINDS:
        crd = kind.to_crd()
        files[f"crds/{kind.crd_name}.yaml"] = _HEADER + _yaml(crd)
        files[f"charts/hetrl/templates/crds/{kind.crd_name}.yaml"] = _chart_template(crd)
    return files


def main(root: Path) -> None:
    """Write the files below a repository's root."""
    for path, text in generated_files().items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


_COMMON = """
    {{- with .Values.commonAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  labels: {{- include "hetrl.labels" . | nindent 4 }}"""
"""The end of a CRD's metadata, as of all that the chart installs."""


def _chart_template(crd: dict[str, Any]) -> str:
    """Return the CRD as the chart installs it.

    A CRD in a chart's ``crds/`` folder is never upgraded; one among the templates is, but
    Helm would delete it with the release, and every job with it, without ``keep``.
    """
    kept = {
        **crd,
        "metadata": {**crd["metadata"], "annotations": {"helm.sh/resource-policy": "keep"}},
    }
    text = _yaml(kept).replace("\nspec:", f"{_COMMON}\nspec:", 1)
    return f"{_HEADER}{{{{- if .Values.crds.install }}}}\n{text}{{{{- end }}}}\n"


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, _data: object) -> bool:
        """Write equal parts out: `kubectl` reads anchors, people do not."""
        return True


def _yaml(value: object) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=100, allow_unicode=True)
    return text


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path())
