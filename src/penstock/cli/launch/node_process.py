"""One node of `penstock up`: its files, its process and its output.

`keep_running` starts the process, copies its output to the node's log, echoes warnings and errors
to stderr (while stopping, errors only), and restarts it after it died, until `stop` is called. A
node that ends with the exit code for wrong settings is not restarted, nor one that repeatedly dies
before it has answered for the first time, since it would do so for ever.
"""

import asyncio
import contextlib
import re
import signal
import sys
from pathlib import Path

from penstock.base.errors import ConfigError
from penstock.cli.exit_codes import EXIT_OK, EXIT_USAGE
from penstock.cli.launch.node_files import BoundedLog, write_whole

RESTART_SECONDS = 1.0
FIRST_STARTS_MAX = 3
"""A node that died so often before it ever answered is not restarted."""

STOP_SECONDS_MAX = 30.0
"""A node that has not ended after this long is killed; its log recovers at the next start."""

LINE_BYTES_MAX = 64 << 10
WORTH_SHOWING = re.compile(rb"^(\S+ (WARNING|ERROR|CRITICAL) |penstock: )")
WORTH_SHOWING_AT_THE_END = re.compile(rb"^(\S+ (ERROR|CRITICAL) |penstock: )")
"""Nodes that end together lose their connections; such warnings are only written to their logs."""


class NodeProcess:
    """A node that is kept running; `broker_id` is the id that clients see."""

    def __init__(
        self, *, broker_id: int, directory: Path, address: tuple[str, int], restart: bool
    ) -> None:
        self.broker_id = broker_id
        self.address = address
        self.has_answered = False
        self._directory = directory
        self._restart = restart
        self._stopping = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._log: BoundedLog | None = None

    async def keep_running(self) -> int:
        """Return the last exit code, once the node has ended and is not to be started again."""
        self._log = BoundedLog(self._directory / "log" / "node.log")
        starts = 0
        try:
            while True:
                code = await self._run_once()
                starts += 1
                if self._is_over(code, starts):
                    return code
                say(f"node {self.broker_id} {ended(code)}; starting it again")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), RESTART_SECONDS)
                if self._stopping.is_set():
                    return EXIT_OK
        finally:
            self._log.close()

    def _is_over(self, code: int, starts: int) -> bool:
        """Whether a node that ended with `code` is not restarted."""
        is_hopeless = code == EXIT_USAGE or (starts >= FIRST_STARTS_MAX and not self.has_answered)
        return self._stopping.is_set() or not self._restart or is_hopeless

    async def stop(self) -> None:
        """Ask the node to end; kill it if that takes too long."""
        self._stopping.set()
        process = self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), STOP_SECONDS_MAX)
        except TimeoutError:
            say(f"node {self.broker_id} did not end within {STOP_SECONDS_MAX:.0f} s: killed")
            with contextlib.suppress(ProcessLookupError):
                process.kill()

    async def _run_once(self) -> int:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "penstock.cli.main", "node", "--ends-with-parent"),
            *("--config", str(self._directory / "node.toml")),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        if self._stopping.is_set():  # `stop` was called while the process was being started
            self._process.terminate()
        pid_file = self._directory / "pid"
        write_whole(pid_file, f"{self._process.pid}\n")
        try:
            assert self._process.stdout is not None
            await self._copy_output(self._process.stdout)
            return await self._process.wait()
        finally:
            self._process = None
            pid_file.unlink(missing_ok=True)

    async def _copy_output(self, output: asyncio.StreamReader) -> None:
        rest = b""
        while chunk := await output.read(LINE_BYTES_MAX):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > LINE_BYTES_MAX:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._take_line(line + b"\n")
        if rest:
            self._take_line(rest + b"\n")

    def _take_line(self, line: bytes) -> None:
        assert self._log is not None
        # A full disk must not end the launcher, and with it nodes that can still serve reads.
        with contextlib.suppress(OSError):
            self._log.write(line)
        is_ending = self._stopping.is_set()
        if (WORTH_SHOWING_AT_THE_END if is_ending else WORTH_SHOWING).match(line):
            text = line.decode("utf-8", "replace").rstrip()
            say(f"node {self.broker_id}: {text.removeprefix('penstock: ')}")


def ended(code: int) -> str:
    """Return how a process ended, as text."""
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


def say(text: str) -> None:
    """Write one line to stderr; a closed stderr is no error."""
    with contextlib.suppress(OSError):
        print(f"penstock: {text}", file=sys.stderr, flush=True)


def make_directories(directory: Path) -> None:
    """Create the directories of one node. Raises ConfigError with one line."""
    try:
        for name in ("data", "log"):
            (directory / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{directory} can not be made: {error.strerror}: name another place with --data"
        ) from error
