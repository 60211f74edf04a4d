"""A command `docker` for suites that stop and start brokers with `docker compose`.

It knows `docker compose stop|start kafka-N`, and does that to node N, as gently as Docker does. It
speaks to the process that runs the suite by a socket in the directory where it lies.
"""

import socketserver
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from harness.node import NodeFailed, NodeProcess

DONE = "done"
_COMMAND = """#!{python}
import socket
import sys

if sys.argv[1:2] != ["compose"]:
    sys.exit("this docker knows: compose stop|start kafka-N")
with socket.socket(socket.AF_UNIX) as asked:
    asked.connect({address!r})
    asked.sendall(" ".join(sys.argv[2:]).encode() + b"\\n")
    said = asked.makefile().read()
sys.exit(None if said == {done!r} else said or "the node could not be asked")
"""


@contextmanager
def containers(directory: Path, nodes: Mapping[int, NodeProcess]) -> Iterator[Path]:
    """Yield a directory for PATH whose `docker` stops and starts these nodes."""
    directory.mkdir(parents=True, exist_ok=True)
    address = directory / "socket"
    address.unlink(missing_ok=True)
    command = directory / "docker"
    command.write_text(
        _COMMAND.format(python=sys.executable, address=str(address), done=DONE), "utf-8"
    )
    command.chmod(0o755)

    class Asked(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(_do(self.rfile.readline().decode().split(), nodes).encode())

    with socketserver.UnixStreamServer(str(address), Asked) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield directory
        finally:
            server.shutdown()
            serving.join()


def _do(words: list[str], nodes: Mapping[int, NodeProcess]) -> str:
    """Return what went wrong, or DONE: who hears nothing knows that nothing was done."""
    what, _, name = " ".join(words).partition(" kafka-")
    if what not in {"stop", "start"} or not name.isdigit() or int(name) not in nodes:
        return f"this docker does not know: compose {' '.join(words)}"
    node = nodes[int(name)]
    try:
        if what == "stop" and node.is_running:
            node.stop()
        elif what == "start" and not node.is_running:
            node.start()
    except NodeFailed as error:
        return str(error)
    return DONE
