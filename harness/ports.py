"""Ports for processes under test, each handed out once on this machine.

A port that the kernel picks is free only until somebody else gets it: another test, or any client,
since the kernel takes the local ends of connections from the same range. A node that is killed and
started again would then find its port in use. These lie below that range, and a counter in the
temporary directory keeps processes that run at the same time apart.
"""

import fcntl
import os
import socket
import tempfile
from pathlib import Path

FIRST = 10_000
LAST = 32_000
"""Exclusive; Linux gives the local ends of connections from 32768 on."""
UP_PORTS = 256
"""What `penstock up --nodes N --port P` uses: P, P + 100, P + 200 and N - 1 more behind each."""


def free_port(count: int = 1) -> int:
    """Return the first of `count` ports that nobody listens on and nobody else was given."""
    path = Path(tempfile.gettempdir()) / f"penstock-test-ports-{os.getuid()}"
    with path.open("a+") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        counter.seek(0)
        port = int(counter.read() or FIRST)
        for _ in range(LAST - FIRST):
            if port + count > LAST:
                port = FIRST
            if all(_is_free(one) for one in range(port, port + count)):
                break
            port += 1
        counter.truncate(0)
        counter.write(str(port + count))
        counter.flush()
    return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
