"""Toxiproxy between clients and nodes, for suites that break connections with it.

Source: https://github.com/Shopify/toxiproxy, its configuration file and its command line.
"""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from harness.node import LOOPBACK, answers
from harness.ports import free_port
from harness.waiting import wait_until
from reliability.suites.model import FETCH_SECONDS, SuiteFailed, call, fetched

MODULE, VERSION = "github.com/Shopify/toxiproxy/v2/cmd/server", "v2.5.0"
PROXIED_HOST = "127.0.0.2"
"""Where the proxies listen, with the ports that the nodes have at 127.0.0.1."""
START_SECONDS = 10.0
END_SECONDS = 5.0


@contextmanager
def proxied(work: Path, ports: Mapping[int, int]) -> Iterator[str]:
    """Run a proxy `kafkaN` before the port of each node N; yields where they are told what to do.

    The command is built below `work` with Go. Raises SuiteFailed.
    """
    command = _built(work)
    proxies = [
        {
            "name": f"kafka{node_id}",
            "listen": f"{PROXIED_HOST}:{port}",
            "upstream": f"{LOOPBACK}:{port}",
            "enabled": True,
        }
        for node_id, port in ports.items()
    ]
    config = work / "proxies.json"
    config.write_text(json.dumps(proxies), encoding="utf-8")
    port = free_port()
    log = (work / "proxies.log").open("wb")
    asked = [str(command), "-config", str(config), "-host", LOOPBACK, "-port", str(port)]
    with log, subprocess.Popen(asked, stdout=log, stderr=log) as running:
        try:
            yield f"http://{LOOPBACK}:{port}"
        finally:
            running.terminate()
            try:
                running.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                running.kill()


def wait_for_proxies(ports: Mapping[int, int]) -> None:
    """Wait until each node answers through its proxy. Raises SuiteFailed."""
    for node_id, port in ports.items():
        if not wait_until(partial(answers, port, host=PROXIED_HOST), START_SECONDS):
            raise SuiteFailed(f"node {node_id} can not be reached through its proxy")


def _built(work: Path) -> Path:
    work.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "GOBIN": str(work)}
    command = ["go", "install", f"{MODULE}@{VERSION}"]
    fetched(call(command, cwd=work, seconds=FETCH_SECONDS, env=env), "Toxiproxy")
    return work / "server"
