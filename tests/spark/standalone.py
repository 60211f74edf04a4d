"""A standalone Spark cluster of this machine: a master and two workers, from PySpark's own jars.

Nothing but the wheel is needed. Everything listens on loopback, at ports that were free. A worker
starts its executors itself, as its children; ending the cluster ends each process by its id.
"""

import contextlib
import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from harness.ports import free_port

WORKERS = 2
START_SECONDS = 120.0
_PACKAGE = "org.apache.spark.deploy"
_DAEMON_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dspark.master.rest.enabled=false"
"""One port less to be taken: its default is the same for every master of a machine."""


class StandaloneCluster:
    """One master, and workers of one core each that keep their files below `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = f"spark://127.0.0.1:{free_port()}"

    def __enter__(self) -> Self:
        try:
            port = self.master.rpartition(":")[2]
            self._start("master.Master", "master", "--port", port)
            for number in range(1, WORKERS + 1):
                name = f"worker-{number}"
                where = ("--cores", "1", "--memory", "1g", "-d", str(self._directory / name))
                self._start("worker.Worker", name, *where, self.master)
            self._wait_for_workers()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def executors(self) -> list[psutil.Process]:
        """Return the executors that run now, those of the first worker first.

        A worker begins as a shell, which makes its command line in a child and may leave that to
        the worker as a zombie.
        """
        found: list[psutil.Process] = []
        for worker in self._processes[1:]:
            with contextlib.suppress(psutil.NoSuchProcess):
                found += filter(_runs, psutil.Process(worker.pid).children())
        return found

    def workers_used(self) -> int:
        """Return how many workers have ever had an executor: each leaves a directory."""
        names = (f"worker-{number}" for number in range(1, WORKERS + 1))
        return sum(any((self._directory / name).glob("app-*/*")) for name in names)

    def log(self, name: str = "master") -> str:
        return (self._directory / f"{name}.log").read_text(errors="replace")

    def _start(self, daemon: str, name: str, *more: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        own = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
        java = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": _DAEMON_OPTIONS}
        where = ["--host", "127.0.0.1", "--webui-port", "0"]
        with (self._directory / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(home / "bin/spark-class"), f"{_PACKAGE}.{daemon}", *where, *more],
                    env=os.environ | own | java,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def _wait_for_workers(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while self.log().count("Registering worker") < WORKERS:
            assert all(process.poll() is None for process in self._processes), self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.1)

    def _end(self) -> None:
        family = []
        for process in self._processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                one = psutil.Process(process.pid)
                family += [one, *one.children(recursive=True)]
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        for process in self._processes:
            process.wait()


def _runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def python_without_penstock(directory: Path) -> Path:
    """Make an interpreter that finds all that is installed here but penstock: a bare executor's.

    Without `-S` Python would read the `.pth` file by which the sources of this tree are found.
    """
    packages = sysconfig.get_path("purelib")
    path = directory / "bare-python"
    path.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{packages}" exec "{sys.executable}" -S "$@"\n'
    )
    path.chmod(0o755)
    return path
