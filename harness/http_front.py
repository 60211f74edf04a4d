"""A real `penstock http` as a child process, and a client of it on the standard library alone."""

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS, wait_until

TOKEN = "a-token-of-these-tests-0123456789"
TOKENS = f"""
[[token]]
name = "tests"
token = "{TOKEN}"
produce = ["*"]
consume = ["*"]
groups = ["*"]
metrics = true
"""


class HttpFailed(Exception):
    """The process did not do what it was asked to in time; the text holds the end of its log."""


class Answer(NamedTuple):
    """What a request came to."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def messages(self) -> list[dict[str, Any]]:
        assert self.status == 200, self
        found: list[dict[str, Any]] = self.document["messages"]
        return found

    @property
    def receipts(self) -> list[str]:
        return [one["receipt"] for one in self.messages]


class HttpProcess:
    """One process on a free port of the loopback address."""

    def __init__(
        self,
        directory: Path,
        bootstrap: Sequence[str],
        *,
        tokens: str = TOKENS,
        options: Sequence[str] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`options` are further words of the command; `tls` is what clients talk with."""
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.tokens = directory / "tokens.toml"
        self.tokens.touch(0o600)
        self.tokens.write_text(tokens)
        self.log_file = directory / "http.log"
        self._words = ["--bootstrap", ",".join(bootstrap), "--listen", self.address]
        self._words += ["--tokens", str(self.tokens), *options]
        self._tls = tls
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it was not started"
        return self._process

    def start(self) -> None:
        """Start it, and wait until it listens. Raises HttpFailed."""
        penstock = Path(sys.executable).with_name("penstock")
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [str(penstock), "http", *self._words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ,
            )
        if not wait_until(lambda: self._listens() or self.process.poll() is not None, 120):
            raise HttpFailed(f"it does not listen:\n{self.log()}")
        if self.process.poll() is not None:
            raise HttpFailed(f"it ended while starting:\n{self.log()}")

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(UNTIL_SECONDS)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Return the exit code, once it has ended."""
        return self.process.wait(UNTIL_SECONDS)

    def log(self) -> str:
        """Return what it has logged."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def __enter__(self) -> "HttpProcess":
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    # As a client

    def connection(self) -> http.client.HTTPConnection:
        """Return a connection, which connects with its first request."""
        if self._tls is not None:
            return http.client.HTTPSConnection(
                "localhost", self.port, timeout=UNTIL_SECONDS, context=self._tls
            )
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=UNTIL_SECONDS)

    def raw(self) -> socket.socket:
        """Return a connected socket."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=UNTIL_SECONDS)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = TOKEN,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request on a connection of its own, and return its answer."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        told = dict(headers or {})
        if token is not None:
            told["Authorization"] = f"Bearer {token}"
        with closing(self.connection()) as connection:
            connection.request(method, path, body=data, headers=told)
            got = connection.getresponse()
            found = {name.lower(): value for name, value in got.getheaders()}
            return Answer(got.status, found, got.read())

    def produce(self, topic: str, *messages: Mapping[str, Any] | str) -> Answer:
        """Produce values, or whole messages."""
        whole = [{"value": one} if isinstance(one, str) else one for one in messages]
        return self.ask("POST", f"/v1/topics/{topic}/messages", {"messages": whole})

    def receive(self, topic: str, group: str = "g", **wish: Any) -> Answer:
        """Receive."""
        return self.ask("POST", f"/v1/topics/{topic}/groups/{group}/receive", wish)

    def say(
        self, word: str, topic: str, receipts: Sequence[str], group: str = "g", **more: Any
    ) -> Answer:
        """Say what becomes of messages."""
        path = f"/v1/topics/{topic}/groups/{group}/{word}"
        return self.ask("POST", path, {"receipts": list(receipts), **more})

    def metric(self, name: str) -> float:
        """Return the value of a metric, labels as they are printed; 0 if it is not there."""
        return value_of(self.ask("GET", "/metrics").body, name)


class Events:
    """A stream of server-sent events."""

    def __init__(self, front: HttpProcess, path: str, *, token: str = TOKEN) -> None:
        self._connection = front.connection()
        self._connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        self.answer = self._connection.getresponse()

    def next(self) -> tuple[str, Any]:
        """Return the name and the data of the next event; comments are passed over."""
        name = ""
        while line := self.answer.readline().decode():
            if line.startswith("event: "):
                name = line.removeprefix("event: ").strip()
            elif line.startswith("data: "):
                return name, json.loads(line.removeprefix("data: "))
        return "closed", None

    def comment(self) -> None:
        """Wait for a comment."""
        line = self.answer.readline()
        while line and not line.startswith(b":"):
            line = self.answer.readline()
        assert line, "the stream has ended"

    def close(self) -> None:
        """Go away."""
        self._connection.close()
        self.answer.close()


def value_of(page: bytes, name: str) -> float:
    """Return the value of a metric on a page, labels as they are printed; 0 if it is not there."""
    lines = page.decode().splitlines()
    found = [line for line in lines if line.rpartition(" ")[0] == name]
    return float(found[0].rpartition(" ")[2]) if found else 0.0


def all_of(front: HttpProcess, topic: str, group: str, count: int) -> list[dict[str, Any]]:
    """Receive until there are so many messages; fails after a while."""
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + UNTIL_SECONDS
    while len(found) < count:
        assert time.monotonic() < deadline, found
        found += front.receive(topic, group, wait_seconds=5).messages
    return found
