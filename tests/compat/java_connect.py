"""Workers of Kafka Connect in distributed mode, and their REST interface."""

import contextlib
import http.client
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS, wait_until
from tests.compat.java_programs import program, write_properties

PROJECT = "kafka-connect"
MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
REST_SECONDS = 20
"""A worker answers after 90 s what its leader does not: ask another one before."""
LOOK_SECONDS = 0.2


class RestError(Exception):
    """A worker answered that it can not, or none answered."""


class Worker:
    """One worker; its address stays when it is killed and started again."""

    def __init__(self, directory: Path, settings: Mapping[str, object]) -> None:
        """`settings` are those of all workers."""
        directory.mkdir()
        self.port = free_port()
        self.id = f"127.0.0.1:{self.port}"
        file = directory / "worker.properties"
        write_properties(file, {**settings, "listeners": f"http://{self.id}"})
        self.server = program(PROJECT, MAIN, str(file), log=directory / "worker.log")

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Return what the worker answers. Raises RestError."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=REST_SECONDS)
        text = None if body is None else json.dumps(body)
        try:
            connection.request(method, path, text, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            read = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise RestError(f"{method} {path}: {error}") from error
        finally:
            connection.close()
        if answer.status >= 300:
            raise RestError(f"{method} {path}: {answer.status} {read.decode()}")
        return json.loads(read) if read else None


class Workers:
    """A group of workers; `with` starts and ends them."""

    def __init__(self, directory: Path, bootstrap: str, *, count: int, replicas: int) -> None:
        """With `replicas` of its internal topics."""
        settings = _settings(bootstrap, replicas)
        self.all = [Worker(directory / f"worker-{number}", settings) for number in range(count)]

    def __enter__(self) -> "Workers":
        for worker in self.all:
            worker.server.launch()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self.all:
            worker.server.kill()

    def do(self, method: str, path: str, body: object = None) -> Any:
        """Ask one worker after the other until one can: they rebalance, or have just started."""
        answers: list[Any] = []
        refusals: list[str] = []

        def is_done() -> bool:
            for worker in self.all:
                try:
                    answers.append(worker.ask(method, path, body))
                except RestError as error:
                    refusals.append(str(error))
                else:
                    return True
            return False

        self.until(is_done, lambda: refusals[-3:])
        return answers[-1]

    def until(self, holds: Callable[[], object], told: Callable[[], object]) -> None:
        """Wait for it; `told` says what there is instead."""
        is_so = wait_until(holds, UNTIL_SECONDS / 2, every_seconds=LOOK_SECONDS)
        assert is_so, f"{told()}\n{self.tails()}"

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector, or give it another configuration; wait until its task runs."""
        self.do("PUT", f"/connectors/{name}/config", {"name": name, **config})
        self.wait_state(name, "RUNNING")

    def owner(self, name: str) -> Worker | None:
        """Return the worker that says of itself that it runs the connector's only task."""
        for worker in self.all:
            with contextlib.suppress(RestError):
                status = worker.ask("GET", f"/connectors/{name}/status")
                tasks = [one for one in status["tasks"] if one["state"] == "RUNNING"]
                if [one["worker_id"] for one in tasks] == [worker.id]:
                    return worker
        return None

    def wait_state(self, name: str, state: str) -> None:
        """Wait until the connector has this state: RUNNING with its task, STOPPED without."""
        found: list[Any] = [None]

        def is_so() -> bool:
            found[0] = self.do("GET", f"/connectors/{name}/status")
            tasks = [one["state"] for one in found[0]["tasks"]]
            wanted = ["RUNNING"] if state == "RUNNING" else []
            return bool(found[0]["connector"]["state"] == state and tasks == wanted)

        self.until(is_so, lambda: found[0])

    def offsets(self, name: str) -> list[dict[str, Any]]:
        """Return the connector's offsets as Connect lists them."""
        found: list[dict[str, Any]] = self.do("GET", f"/connectors/{name}/offsets")["offsets"]
        return found

    def stop(self, name: str) -> None:
        """Stop a connector: only then may its offsets be changed."""
        self.do("PUT", f"/connectors/{name}/stop")
        self.wait_state(name, "STOPPED")

    def resume(self, name: str) -> None:
        """Let a stopped connector run again."""
        self.do("PUT", f"/connectors/{name}/resume")
        self.wait_state(name, "RUNNING")

    def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, object]]) -> None:
        """Set the offsets of a stopped connector."""
        self.do("PATCH", f"/connectors/{name}/offsets", {"offsets": offsets})

    def reset_offsets(self, name: str) -> None:
        """Forget the offsets of a stopped connector."""
        self.do("DELETE", f"/connectors/{name}/offsets")

    def tails(self) -> str:
        """Return the end of every worker's log."""
        return "\n".join(f"--- {one.id}\n{one.server.log_tail(8)}" for one in self.all)


def _settings(bootstrap: str, replicas: int) -> dict[str, object]:
    """Return the settings of all workers, which give up a silent one after 6 s."""
    strings = "org.apache.kafka.connect.storage.StringConverter"
    storage = {
        f"{kind}.storage.replication.factor": replicas for kind in ("config", "offset", "status")
    }
    topics = {f"{kind}.storage.topic": f"connect-{kind}s" for kind in ("config", "offset")}
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "workers",
        "exactly.once.source.support": "enabled",
        "key.converter": strings,
        "value.converter": strings,
        "status.storage.topic": "connect-status",
        **topics,
        **storage,
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 1_000,
        "scheduled.rebalance.max.delay.ms": 0,
        "offset.flush.interval.ms": 500,
        "plugin.discovery": "service_load",
    }
