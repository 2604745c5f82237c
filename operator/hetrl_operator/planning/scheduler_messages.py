"""Readers of scheduler messages about pods that cannot be bound."""

import re

_SUMMARY = re.compile(
    r"\d+/\d+ nodes are available: (?P<reasons>.*?)(?:\. .*|\.?)$", flags=re.DOTALL
)
_COUNTED = re.compile(r"\d+ ")
_OF_OTHER_NODES = re.compile(
    r"\d+ node\(s\) didn't (?:satisfy plugin\(s\) \[NodeAffinity\]"
    r"|match Pod's node affinity/selector)$"
)


def is_about_machine(message: str) -> bool:
    """Tell whether a scheduler's message is about nodes.

    The default scheduler counts nodes by reason. If it rejects a pod before it checks any node, as
    for a claim that does not exist, there is no count, and no other machine would help.
    """
    found = _SUMMARY.match(message)
    return found is None or bool(_COUNTED.match(found["reasons"]))


def machine_words(message: str) -> str:
    """Return the part of a scheduler's message about the machine that a pod is pinned to.

    The default scheduler also counts the nodes that the pin rules out, and what preemption would
    do. Messages of another form are returned whole.
    """
    found = _SUMMARY.match(message)
    if found is None:
        return message
    reasons = [each for each in found["reasons"].split(", ") if not _OF_OTHER_NODES.match(each)]
    return ", ".join(reasons) or found["reasons"]
