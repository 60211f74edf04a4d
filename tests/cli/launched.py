"""A `penstock up` in a temporary directory, for tests that need a real node."""

import contextlib
import io
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.ports import UP_PORTS, free_port
from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.cli.program import guarded

PENSTOCK = (sys.executable, "-m", "penstock.cli.main")
START_SECONDS_MAX = UNTIL_SECONDS
STOP_SECONDS_MAX = UNTIL_SECONDS


def penstock(*arguments, stdin=b"", environment=None):
    return subprocess.run(
        [*PENSTOCK, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        timeout=UNTIL_SECONDS,
        check=False,
        env={**os.environ, **(environment or {})},
    )


class Launched:
    """A running launcher. Its node is ready when this is made."""

    def __init__(self, directory, *options, port=None):
        self.directory = Path(directory)
        self.port = port or free_port(UP_PORTS)
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.errors_path = self.directory.with_suffix(".stderr")
        with self.errors_path.open("ab") as errors:
            self.process = subprocess.Popen(
                [
                    *(*PENSTOCK, "up", "--data", str(directory), "--port", str(self.port)),
                    *("--metrics-port", "0", "--set", "log.segment_bytes=1048576", *options),
                ],
                stdout=subprocess.PIPE,
                stderr=errors,
                stdin=subprocess.DEVNULL,
            )
        try:
            self.ready_line = self._first_line()
        except BaseException:
            self.process.kill()
            raise

    def _first_line(self):
        output = self.process.stdout
        assert output is not None
        readable, _, _ = select.select([output], [], [], START_SECONDS_MAX)
        assert readable, f"not ready: {self.errors()}"
        return output.readline().decode()

    def errors(self):
        return self.errors_path.read_text()

    def told(self):
        """Return the lines on stderr, but those about long turns, which a busy machine makes."""
        return [line for line in self.errors().splitlines() if "held the loop" not in line]

    def pid(self):
        """Return the node's process id, waiting for the file while it is started again."""
        path = self.directory / "node-1" / "pid"
        said = ""

        def is_said():
            nonlocal said
            said = ""
            with contextlib.suppress(FileNotFoundError):  # it goes with the process
                said = path.read_text()
            return said

        assert wait_until(is_said, START_SECONDS_MAX)
        return int(said)

    def run(self, *arguments, stdin=b""):
        """Run a command against this cluster; return its stdout."""
        code, out, errors = self.try_to_run(*arguments, stdin=stdin)
        assert code == 0, errors
        return out

    def try_to_run(self, *arguments, stdin=b""):
        """Run a command within this process, which is quicker; return (code, stdout, stderr)."""
        out, errors = io.TextIOWrapper(io.BytesIO()), io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PENSTOCK_BOOTSTRAP", self.bootstrap)
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", errors)
            code = guarded([str(argument) for argument in arguments])
        out.flush()
        return code, out.buffer.getvalue().decode(), errors.getvalue()

    def stop(self, number=signal.SIGTERM):
        """End the launcher; return (exit code, what else it printed on stdout)."""
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=STOP_SECONDS_MAX)
        return self.process.returncode, rest.decode()


@contextlib.contextmanager
def launched(directory, *options, port=None):
    up = Launched(directory, *options, port=port)
    try:
        yield up
    finally:
        if up.process.poll() is None:
            up.stop()
        if up.process.stdout is not None:
            up.process.stdout.close()


def is_alive(pid):
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
