"""What a figure was measured on; goes into every result file."""

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_PACKAGES = ("confluent-kafka", "uvloop", "crc32c", "kio", "cramjam", "pyspark", "pyarrow")


def describe() -> dict[str, object]:
    """Return the machine, the kernel and the versions that matter, and how busy it is now."""
    load = os.getloadavg()
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_mib": (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) >> 20,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "load_average": [round(value, 2) for value in load],
    }


def commit() -> str:
    """Return the commit that is measured, with a mark where the tree differs from it."""
    command = ["git", "describe", "--always", "--dirty"]
    try:
        said = subprocess.run(
            command, cwd=_HERE, capture_output=True, text=True, timeout=30, check=False
        )
    except OSError:
        return "unknown"
    return said.stdout.strip() or "unknown"


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
