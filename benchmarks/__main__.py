"""`python -m benchmarks [NAME ...] [--quick]`: ask all questions, or those named."""

import argparse
import importlib
import subprocess
import sys
import time
import traceback

QUESTIONS = (
    "footprint",
    "produce",
    "consume",
    "kernel_bounds",
    "latency",
    "replicated",
    "small_requests",
    "partitions",
    "restart",
    "peers",
    "storage_append",
    "judge",
    "spark_read_land",
    "kills",
    "power_cuts",
    "corruption",
    "bad_input",
    "failovers",
    "failover_partitions",
    "client_failovers",
    "group_failovers",
    "trials",
    "chaos",
)


def main() -> int:
    """Read the command line; returns 1 when a question could not be answered."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(QUESTIONS))
    parser.add_argument("--quick", action="store_true", help="less data, fewer repetitions")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in QUESTIONS]
    if unknown:
        parser.error(f"no such question: {', '.join(unknown)}; there are {', '.join(QUESTIONS)}")
    failed = []
    for name in arguments.names or QUESTIONS:
        begun = time.monotonic()
        if not _answer(name, quick=arguments.quick):
            failed.append(name)
        print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)
    if failed:
        print(f"not answered: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _answer(name: str, *, quick: bool) -> bool:
    """Ask one question; say whether it was answered."""
    try:
        module = importlib.import_module(f"benchmarks.{name}")
        if hasattr(module, "run"):
            module.run(quick=quick)
            return True
        command = [sys.executable, "-m", f"benchmarks.{name}"]
        return subprocess.run(command, check=False).returncode == 0
    except Exception:  # noqa: BLE001  one question that fails must not take the others along
        traceback.print_exc()
        return False


if __name__ == "__main__":
    sys.exit(main())
