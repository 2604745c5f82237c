"""Set-up that the tests of this folder need before collection."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # vLLM leaves its ZeroMQ context open when its engine process was killed, as one test does
    # on purpose; the warning comes after the last test, beyond the reach of its marks.
    config.addinivalue_line("filterwarnings", "ignore:Unclosed context:ResourceWarning")
    config.addinivalue_line(
        "filterwarnings",
        r"ignore:Exception ignored in. <function Context.__del__"
        ":pytest.PytestUnraisableExceptionWarning",
    )
