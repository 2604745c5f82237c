"""``hetrl simulate``: the command and its plot."""
