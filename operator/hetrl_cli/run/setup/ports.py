"""Free ports on the loopback for servers that must keep theirs over a restart.

Below the kernel's ephemeral range, where no outgoing connection can take a port while its
server is down.
"""

import random
import socket
from contextlib import ExitStack

LOOPBACK = "127.0.0.1"
_LOWEST, _BELOW = 20_000, 32_000


def free_ports(count: int) -> tuple[int, ...]:
    """Return distinct ports that nothing listens on at this moment.

    Raises:
        OSError: every port tried was taken.
    """
    found: list[int] = []
    # Two runs that start together would scan the same ports in the same order.
    candidates = random.SystemRandom().sample(range(_LOWEST, _BELOW), k=1000)
    with ExitStack() as held:
        for port in candidates:
            if len(found) == count:
                return tuple(found)
            if _take(held, port):
                found.append(port)
    raise OSError(f"found {len(found)} of {count} free ports between {_LOWEST} and {_BELOW}")


def _take(held: ExitStack, port: int) -> bool:
    taken = held.enter_context(socket.socket())
    try:
        taken.bind((LOOPBACK, port))
    except OSError:
        return False
    return True
