"""Spark Connect: a server as a process of its own, from PySpark's own jars, and its clients.

A client's process has no JVM: it sends plans to the server, which runs them on its master. Ending
the server ends the shell, the JVM and its Python workers, each by its id.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import psutil

from harness.node import answers
from harness.ports import free_port
from harness.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

START_SECONDS = 240.0
_MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """One server, which has `python` for its Python workers and its log in `directory`."""

    def __init__(
        self, directory: Path, master: str, python: Path, settings: dict[str, str]
    ) -> None:
        self._log = directory / "connect.log"
        self._port = free_port()
        own = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.sql.warehouse.dir": str(directory / "warehouse"),
        }
        chosen = (settings | own).items()
        conf = [word for name, value in chosen for word in ("--conf", f"{name}={value}")]
        self._python = python
        self._words = ["--master", master, *conf, "--class", _MAIN, "spark-internal"]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        import pyspark

        home = Path(pyspark.__file__).parent
        own = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
        own["PYSPARK_PYTHON"] = str(self._python)  # no setting counts for a server
        with self._log.open("wb") as log:
            process = self._process = subprocess.Popen(
                [str(home / "bin/spark-submit"), *self._words],
                env=os.environ | own,
                cwd=self._log.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

        def is_up_or_over() -> bool:
            return answers(self._port) or process.poll() is not None

        try:
            assert wait_until(is_up_or_over, START_SECONDS, every_seconds=0.1), self.log()
            assert process.poll() is None, self.log()
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

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @contextlib.contextmanager
    def session(self) -> Iterator["SparkSession"]:
        """Come in as a client, beside whatever other sessions this process has."""
        from pyspark.sql.connect.session import SparkSession

        session = SparkSession.builder.remote(f"sc://127.0.0.1:{self._port}").create()
        try:
            yield session
        finally:
            session.stop()

    def _end(self) -> None:
        assert self._process is not None
        with contextlib.suppress(psutil.NoSuchProcess):
            one = psutil.Process(self._process.pid)
            for member in [one, *one.children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.kill()
        self._process.wait()
