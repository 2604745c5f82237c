"""How bytes move between the processes of a run: channels, clients, the weight stream.

Here belong connecting, deadlines, retries, authentication and checksums. What a message
means is decided by who receives it: ``coordinator``, ``trainer``, ``rollout``. No torch.
"""
