"""Transport of bytes between the processes of a run: channels, clients, the weight stream.

This package has connections, deadlines, retries, authentication and checksums. The receivers
interpret the messages: ``coordinator``, ``trainer``, ``rollout``. No torch.
"""
