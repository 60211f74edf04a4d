"""RocketMQ's stock Java client, run with words that say what it is to do."""

import json
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.compat.java_tools import jars_or_skip

SOURCE = Path(__file__).with_name("RemotingClients.java")
POPPING = Path(__file__).with_name("PopClients.java")
GRPC = Path(__file__).with_name("GrpcProducer.java")
GRPC_CONSUMERS = Path(__file__).with_name("GrpcConsumers.java")
GRPC_TRANSACTIONS = Path(__file__).with_name("GrpcTransactions.java")
"""Of the gRPC client, which has jars of its own."""
_OF_GRPC = {GRPC, GRPC_CONSUMERS, GRPC_TRANSACTIONS}
CLIENT_SECONDS = 120


def client(home: Path, *words: object, source: Path = SOURCE) -> list[dict[str, Any]]:
    """Run the stock client with these words; return what it has told."""
    done = subprocess.run(
        _command(home, words, source),
        capture_output=True,
        timeout=CLIENT_SECONDS,
        check=False,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return told_by(done.stdout)


class RunningClient:
    """A stock client while it runs; what it tells is in a file meanwhile."""

    def __init__(
        self, home: Path, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self._out = home / "told"
        self._errors = home / "errors"
        with self._out.open("w") as out, self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=errors, env=environment
            )

    def told(self) -> list[dict[str, Any]]:
        """Return what it has told so far."""
        return told_in(self._out)

    def freeze(self) -> None:
        """Stop it where it is; nobody hears of that."""
        self._process.send_signal(signal.SIGSTOP)

    def finish(self) -> list[dict[str, Any]]:
        """Say that it is to come to its end; return all that it has told."""
        self._process.communicate(b"stop\n", CLIENT_SECONDS)
        assert self._process.returncode == 0, self._errors.read_text(encoding="utf-8")[-3000:]
        return self.told()

    def kill(self) -> None:
        """End it, where it still runs."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


@contextmanager
def running_client(home: Path, *words: object, source: Path = SOURCE) -> Iterator[RunningClient]:
    """The stock client for the length of a `with`."""
    with running(RunningClient(home, _command(home, words, source))) as started:
        yield started


@contextmanager
def running(started: RunningClient) -> Iterator[RunningClient]:
    """Whatever becomes of it, it does not run behind the `with` block."""
    try:
        yield started
    finally:
        started.kill()


def _command(home: Path, words: tuple[object, ...], source: Path) -> list[str]:
    project = "rocketmq-grpc" if source in _OF_GRPC else "rocketmq"
    class_path = ":".join(map(str, jars_or_skip(project)))
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command += ["-Dfile.encoding=UTF-8", f"-Duser.home={home}", "-cp", class_path, str(source)]
    return [*command, *map(str, words)]


def told_in(path: Path) -> list[dict[str, Any]]:
    """Return what a client has told so far, whole lines."""
    text = path.read_text(encoding="utf-8")
    return told_by(text[: text.rfind("\n") + 1])


def told_by(text: str) -> list[dict[str, Any]]:
    """Return what a client has told in its lines."""
    return [json.loads(line[1:]) for line in text.splitlines() if line.startswith("@")]
