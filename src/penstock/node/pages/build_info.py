"""The build of this process: its commit, and which of the hot functions are compiled.

The commit stands in `penstock/_commit.txt` of an installed package; in a checkout git is asked.
Without compiled twins the same work takes more processor time, nothing else differs (ADR 0037).
"""

import importlib
import subprocess
from importlib import resources
from pathlib import Path

from penstock import __version__

TWINS = (
    "penstock.audit._counts",
    "penstock.compaction._key_map",
    "penstock.grpc.consuming._acks",
    "penstock.grpc.consuming._delivered",
    "penstock.protobuf._fields",
    "penstock.protocol._fetch",
    "penstock.protocol._produce",
    "penstock.record._batch",
    "penstock.record._columns",
    "penstock.record._encode",
    "penstock.record._picked",
    "penstock.record._plain",
    "penstock.record._record",
    "penstock.record._scan",
    "penstock.record._single_frame",
    "penstock.record._walk",
    "penstock.runtime.io._gather",
    "penstock.shares.updates._hand_out",
    "penstock.shares.updates._updates",
    "penstock.storage.commit_log._frames",
    "penstock.storage.read._read_check",
    "penstock.storage.read._regions",
)
COST = (
    "a small Produce request takes about twice the processor time, "
    "a record read into Spark 16 us in place of 0.1"
)
"""Without any of them: ADR 0037 says how it was measured."""
GIT_SECONDS_MAX = 5.0


def interpreted() -> list[str]:
    """Return the compiled twins that are missing."""
    missing = []
    for name in TWINS:
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    return missing


def compiled_text() -> str:
    """Return, for people, which twins are compiled."""
    missing = interpreted()
    if not missing:
        return "compiled"
    return "interpreted" if len(missing) == len(TWINS) else f"without {', '.join(missing)}"


def commit() -> str:
    """Return the commit that this was built from; empty if unknown."""
    package = resources.files("penstock")
    recorded = package / "_commit.txt"
    if recorded.is_file():
        return recorded.read_text(encoding="utf-8").strip()
    checkout = Path(str(package)).parents[1]
    if not (checkout / ".git").exists():
        return ""
    asked = ["git", "-C", str(checkout), "describe", "--always", "--exclude=*", "--abbrev=12"]
    asked.append("--dirty=+changes")
    try:
        done = subprocess.run(  # noqa: S603  fixed words
            asked, capture_output=True, text=True, timeout=GIT_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def version_line() -> str:
    """Return what `penstock --version` prints."""
    return f"penstock {__version__} (commit {commit() or 'unknown'}, {compiled_text()})"
