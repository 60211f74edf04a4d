"""A client's own tests: where they come from, what they run against, and how a run is judged."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from harness.node import NodeProcess, SettingsOf

FETCH_SECONDS = 600.0
OUTPUT_TAIL = 2_000


class SuiteFailed(Exception):
    """A suite could not be fetched, built or run at all."""


class Said(StrEnum):
    """What a suite says of one of its tests."""

    PASSED = "passed"
    FAILED = "failed"
    LEFT_OUT = "left out"
    """By the suite itself."""
    UNFINISHED = "unfinished"
    """It began and the run ended first."""


Outcomes = Mapping[str, Said]
"""By the name of the test."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """The running cluster as a suite finds it."""

    by_id: Mapping[int, NodeProcess]
    login_port: int = 0
    """Of one node that is alone: where clients come in with a password."""
    proxy_api: str = ""
    """URL of Toxiproxy, where it stands between clients and nodes."""
    proxied: Sequence[str] = ()
    """Host and port of each node there."""
    commands: Path | None = None
    """A directory with a `docker` that stops and starts them."""

    @property
    def bootstrap(self) -> str:
        """All nodes, with commas."""
        return ",".join(node.bootstrap for node in self.by_id.values())

    @property
    def logs(self) -> list[Path]:
        """What each node writes."""
        return [node.log_file for node in self.by_id.values()]

    @property
    def first(self) -> str:
        """Host and port of one node."""
        return next(iter(self.by_id.values())).bootstrap


@dataclass(frozen=True, slots=True)
class Call:
    """One run: the tests whose names match `only`, or all, and how long it may take."""

    source: Path
    nodes: Nodes
    only: str = ""
    seconds: float = 450.0


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of one version of a client."""

    client: str
    version: str
    fetch: Callable[[Path], Path]
    """Puts the source below a directory, and returns where."""
    run: Callable[[Call], Outcomes]
    node_ids: Sequence[int] = (1, 2, 3)
    settings: SettingsOf = field(default_factory=lambda: MappingProxyType({}))
    is_proxied: bool = False
    """Whether Toxiproxy stands between clients and nodes."""
    known: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Tests that do not pass, and why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A run held against what is known."""

    passed: int
    left_out: Sequence[str]
    known: Sequence[str]
    """Did not pass, as is known."""
    unexpected: Sequence[str]
    """Did not pass, and nobody has said why."""
    healed: Sequence[str]
    """Passed although they are known not to."""

    @property
    def is_well(self) -> bool:
        """Whether something passed and nothing happened that is not known."""
        return self.passed > 0 and not self.unexpected and not self.healed


def judge(outcomes: Outcomes, known: Mapping[str, str]) -> Verdict:
    """Hold what a suite said against what is known of it."""

    def those(*wanted: Said) -> list[str]:
        return sorted(name for name, said in outcomes.items() if said in wanted)

    bad = those(Said.FAILED, Said.UNFINISHED)
    passed = those(Said.PASSED)
    return Verdict(
        passed=len(passed),
        left_out=those(Said.LEFT_OUT),
        known=[name for name in bad if name in known],
        unexpected=[name for name in bad if name not in known],
        healed=[name for name in passed if name in known],
    )


def call(
    command: Sequence[str],
    *,
    cwd: Path,
    seconds: float,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. Raises SuiteFailed when it is missing or takes too long."""
    try:
        return subprocess.run(
            command,
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except FileNotFoundError as error:
        raise SuiteFailed(f"{command[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise SuiteFailed(f"{' '.join(command[:4])} took more than {seconds:.0f} s") from error


def fetched(done: subprocess.CompletedProcess[str], what: str) -> str:
    """Return what a command printed. Raises SuiteFailed with its last words if it failed."""
    if done.returncode != 0:
        raise SuiteFailed(f"{what}: {(done.stderr or done.stdout)[-OUTPUT_TAIL:]}")
    return done.stdout
