import socket

import click
import pytest

from hetrl_runtime.process.pod_options import ordinal


@pytest.mark.parametrize(
    ("given", "hostname", "expected"),
    [
        pytest.param("3", "anything", 3, id="given"),
        pytest.param("from-hostname", "job-trainer-a100-0-12", 12, id="pod"),
        pytest.param("from-hostname", "job-trainer-4.job.default.svc", 4, id="full domain name"),
    ],
)
def test_ordinal_is_an_option_or_read_from_the_hostname(monkeypatch, given, hostname, expected):
    monkeypatch.setattr(socket, "gethostname", lambda: hostname)

    assert ordinal(given) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param("-1", "must be a number or from-hostname, got '-1'", id="negative"),
        pytest.param("first", "must be a number or from-hostname, got 'first'", id="word"),
        pytest.param("from-hostname", "must end in -NUMBER, got 'laptop'", id="hostname"),
    ],
)
def test_non_number_is_named(monkeypatch, given, message):
    monkeypatch.setattr(socket, "gethostname", lambda: "laptop")

    with pytest.raises(click.BadParameter, match=message):
        ordinal(given)
