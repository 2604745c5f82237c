"""Parsing of Prometheus' text format into series, with labels of the target."""

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from hetrl_cli.run.metrics.recording import Identity, identity


def series_of(text: str, labels: Mapping[str, str]) -> dict[Identity, float]:
    """Return the series of a text with a target's labels; a series' own labels take precedence.

    Raises:
        ValueError: it is not Prometheus' text.
    """
    return {
        identity(sample.name, {**labels, **sample.labels}): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
