"""A real HDFS on this machine: NameNode and a DataNode of Hadoop, in one process.

The jars come from Maven Central (tests/compat/java/hadoop), and are kept outside the repository.
What lies in it stays when the server is stopped and started.
"""

import functools
import json
import shutil
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.maven import jars
from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.tier.hdfs_place import HdfsPlace

MAIN = "org.apache.hadoop.test.MiniDFSClusterManager"
ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m")
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
ADMIN_SECONDS = 180


@functools.cache
def class_path() -> str | None:
    """Return the jars as one argument; None: they are not to be had, see `why_not`."""
    found = jars("hadoop")
    return None if isinstance(found, str) else ":".join(map(str, found))


def why_not() -> str | None:
    """Return why there is no server here; None: there is."""
    found = jars("hadoop")
    return found if isinstance(found, str) else None


class HdfsServer:
    """A NameNode and a DataNode with their data below `path`."""

    def __init__(self, path: Path, *, more: tuple[str, ...] = ()) -> None:
        """`more`: further properties of Hadoop, KEY=VALUE."""
        self.path = path
        self.port = free_port()
        self.more = more
        self.process: subprocess.Popen[bytes] | None = None
        self._is_formatted = False

    @property
    def address(self) -> str:
        """Where the NameNode listens."""
        return f"127.0.0.1:{self.port}"

    def place(self, directory: str) -> HdfsPlace:
        """Return a directory as the adapter takes it."""
        return HdfsPlace((self.address,), directory)

    def __enter__(self) -> Self:
        self.path.mkdir(parents=True, exist_ok=True)
        self.start()
        return self

    def start(self) -> None:
        """Serve what lies there; wait until it takes writes."""
        details = self.path / "details"
        details.unlink(missing_ok=True)
        command = [*JAVA, QUIET, f"-Dtest.build.data={self.path}", "-cp", class_path() or "", MAIN]
        command += ["-datanodes", "1", "-nnport", str(self.port), "-httpport", str(free_port())]
        command += [] if self._is_formatted else ["-format"]
        command += ["-writeDetails", str(details)]
        command += [part for one in ("dfs.replication=1", *self.more) for part in ("-D", one)]
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self._is_formatted = True
        assert wait_until(lambda: _names_port(details), UNTIL_SECONDS), self.log_tail()

    @property
    def log_file(self) -> Path:
        """What both say."""
        return self.path / "log"

    def log_tail(self) -> str:
        """Return the end of it."""
        return self.log_file.read_text(errors="replace")[-3000:]

    def stop(self) -> None:
        """End the process, whatever it does; what lies there stays."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stand_still(self) -> None:
        """Answer nothing, with all connections open."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Answer again."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def admin(self, *words: str) -> None:
        """Run Hadoop's dfsadmin; fail if it fails."""
        command = [*JAVA, QUIET, "-cp", class_path() or "", ADMIN]
        command += ["-fs", f"hdfs://{self.address}", *words]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=ADMIN_SECONDS, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def blocks(self) -> list[Path]:
        """Return the files in which the DataNode has blocks."""
        found = self.path.rglob("current/finalized/**/blk_*")
        return sorted(one for one in found if one.suffix != ".meta")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        shutil.rmtree(self.path / "dfs", ignore_errors=True)


def _names_port(details: Path) -> bool:
    try:
        return bool(json.loads(details.read_text())["namenode_port"])
    except (OSError, ValueError):
        return False
