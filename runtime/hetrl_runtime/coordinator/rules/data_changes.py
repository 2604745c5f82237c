"""The rule that a history goes on only in the data that it is of, unless the job allows others."""

import logging
from collections.abc import Collection

from hetrl_core.job.identity import Aspect, Value, differences, refusal

log = logging.getLogger(__name__)


class DataChangedError(ValueError):
    """A history is of other data; the message names both, and says what to do."""


def check_data(recorded: Value, present: Value, *, of: str, allowed: Collection[Aspect]) -> None:
    """Check that a history is of these data, or that the job allows others.

    Raises:
        DataChangedError: it is of others; ``of`` names the history.
    """
    found = differences({Aspect.DATA: recorded}, {Aspect.DATA: present})
    if found and Aspect.DATA not in allowed:
        raise DataChangedError(f"{of} is of other data: {refusal(found)}")
    for each in found:
        log.warning("other data on purpose: history=%s %s", of, each)
