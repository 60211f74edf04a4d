"""A real S3 server over a directory, in a process of its own: versitygw, built from its Go module.

The module is built once, and kept outside the repository.
"""

import functools
import os
import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.maven import CACHE
from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS, wait_until

MODULE = "github.com/versity/versitygw/cmd/versitygw"
VERSION = "v1.8.0"
BUILD_SECONDS = 270
"""Below the time-out of a test; a next try goes on from what was built by then."""
ACCESS = "penstock"
SECRET = "a-secret-of-tests"
REGION = "us-east-1"


@functools.cache
def binary() -> Path | str:
    """Return the server's program, or the reason why there is none."""
    target = CACHE / f"versitygw-{VERSION}"
    if (target / "versitygw").exists():
        return target / "versitygw"
    go = shutil.which("go")
    if go is None:
        return "go is not installed"
    target.mkdir(parents=True, exist_ok=True)
    command = [go, "install", f"{MODULE}@{VERSION}"]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
            env=dict(os.environ, GOBIN=str(target)),
        )
    except subprocess.TimeoutExpired:
        return f"go did not build {MODULE} in {BUILD_SECONDS} s"
    if done.returncode != 0:
        return f"go could not build {MODULE}: {done.stderr.strip()[-300:]}"
    return target / "versitygw"


class S3Server:
    """A server with one bucket per directory below `path`."""

    def __init__(self, program: Path, path: Path) -> None:
        self._program = program
        self.path = path
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        (self.path / "objects" / "tier").mkdir(parents=True)
        self.start()
        return self

    def start(self, secret: str = SECRET) -> None:
        """Serve what lies there to whoever has the secret."""
        command = [str(self._program), "--access", ACCESS, "--secret", secret, "--region", REGION]
        command += ["--port", f"127.0.0.1:{self.port}", "--quiet"]
        command += ["--access-log", str(self.path / "requests"), "posix"]
        command += [str(self.path / "objects")]
        with (self.path / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        assert wait_until(self._answers, UNTIL_SECONDS), (self.path / "log").read_text()

    def stop(self) -> None:
        """End the process, whatever it does; what lies there stays."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def requests(self, operation: str) -> list[str]:
        """Return the lines of its log about requests of a kind, such as s3_GetObject."""
        lines = (self.path / "requests").read_text().splitlines()
        return [line for line in lines if f" {operation} " in line]

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
