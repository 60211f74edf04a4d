"""What do the kernel's copies cost that no broker on this machine can go below?

A C program moves bytes between a file in the page cache and a loopback connection, in pieces of
1 MiB, and looks at none. Serving a read costs at least `sendfile`, and `copy` where the bytes are
looked at on the way (ours are, see ADR 0020); taking records costs at least `take`. Beside them
stands the checksum of as many bytes, which lie in the processor's cache as they do in a broker.
"""

import os
import tempfile
import time
from pathlib import Path

from crc32c import crc32c

from benchmarks import RESULTS
from benchmarks.parts import native
from harness.results import median, publish
from harness.warm_memory import warm_memory

GOAL = "none: what the figures of produce and consume are to be compared with"
CASES = ("sendfile", "copy", "take")
PIECE_BYTES = 1 << 20


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`."""
    reason = native.why_not()
    if reason is not None:
        print(f"kernel_bounds left out: {reason}")
        return
    total, rounds = (500_000_000, 3) if quick else (2_000_000_000, 7)
    warm_memory(2 * total)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        path = Path(directory) / "records"
        _fill(path, total)
        found: dict[str, list[dict[str, float]]] = {name: [] for name in (*CASES, "checksum")}
        for _ in range(rounds):
            for name in CASES:
                found[name].append(native.run("kernel_bounds", name, path, total))
            found["checksum"].append(_checksum(total))
    publish(
        RESULTS,
        "kernel_bounds",
        [_row(name, runs, total) for name, runs in found.items()],
        goal=GOAL,
    )


def _fill(path: Path, total: int) -> None:
    piece = os.urandom(PIECE_BYTES)
    with path.open("wb") as file:
        for _ in range(0, total, PIECE_BYTES):
            file.write(piece)
        file.truncate(total)


def _checksum(total: int) -> dict[str, float]:
    piece = os.urandom(PIECE_BYTES)
    begun, begun_cpu = time.perf_counter(), time.process_time()
    for _ in range(0, total, PIECE_BYTES):
        crc32c(piece)
    return {"seconds": time.perf_counter() - begun, "cpu": time.process_time() - begun_cpu}


def _row(name: str, runs: list[dict[str, float]], total: int) -> dict[str, object]:
    costs = [one["cpu"] / total * 1e9 for one in runs]
    return {
        "what": name,
        "MB/s": median([total / 1e6 / one["seconds"] for one in runs]),
        "CPU s/GB": median(costs),
        "min": min(costs),
        "max": max(costs),
    }
