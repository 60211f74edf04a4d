"""Installs what `make dist` built into a clean environment and uses it.

    python -m tools.smoke DIST

    the wheel as it was built              says that it is compiled
    one made with a compiler that fails    says that it is interpreted

Each starts a node, writes three records and reads them. What they depend on comes in the pinned
versions. Exit code 0 when both worked, else 1 with the reason.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from harness.ports import UP_PORTS, free_port
from penstock.cli.exit_codes import end_with

ROOT = Path(__file__).resolve().parents[1]
LINES = b"one\ntwo\nthree\n"
COMMAND_SECONDS = 900


class SmokeFailed(Exception):
    """What was installed does not do what it should."""


def main(arguments: list[str]) -> int:
    """Check the wheel and the source package of a directory."""
    dist = Path(arguments[0])
    (wheel,), (source,) = list(dist.glob("*.whl")), list(dist.glob("*.tar.gz"))
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-smoke-") as scratch:
            _check(Path(scratch), wheel, source)
    except SmokeFailed as error:
        print(f"smoke: {error}", file=sys.stderr)
        return 1
    return 0


def _check(scratch: Path, wheel: Path, source: Path) -> None:
    print(f"smoke: installing {wheel.name} with what it depends on", flush=True)
    run([sys.executable, "-m", "venv", str(scratch / "venv")])
    pins = scratch / "pins.txt"
    pins.write_text("\n".join(pinned((ROOT / "requirements/all.lock").read_text())))
    pip = [str(scratch / "venv/bin/python"), "-m", "pip", "--disable-pip-version-check", "-q"]
    run([*pip, "install", "-c", str(pins), str(wheel)])
    use(scratch, "compiled")
    print(f"smoke: building {source.name} without a compiler", flush=True)
    build = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "wheel", "--no-deps"]
    build += ["--no-build-isolation", "--wheel-dir", str(scratch / "plain"), str(source)]
    run(build, environment={"CC": "/bin/false"})
    (plain,) = (scratch / "plain").glob("*.whl")
    run([*pip, "install", "--force-reinstall", "--no-deps", str(plain)])
    use(scratch, "interpreted")


def pinned(lock: str) -> list[str]:
    """Return the pins of a lock file, without hashes: constraints have none."""
    return re.findall(r"^[A-Za-z0-9._\[\]-]+==[^ \\\n]+(?: ;[^\\\n]+)?", lock, re.MULTILINE)


def use(scratch: Path, kind: str) -> None:
    """Start a node of what is installed, write to it, read it. Raises SmokeFailed."""
    penstock = str(scratch / "venv/bin/penstock")
    version = run([penstock, "--version"]).decode()
    if not re.search(rf"\(commit [0-9a-f]{{12}}(\+changes)?, {kind}\)", version):
        raise SmokeFailed(f"it says {version.strip()!r}, and should name a commit and say {kind}")
    port = free_port(UP_PORTS)
    up = [penstock, "up", "--data", str(scratch / kind), "--port", str(port), "--metrics-port", "0"]
    with subprocess.Popen(up, stdout=subprocess.PIPE, cwd=scratch) as node:
        try:
            assert node.stdout is not None
            if not node.stdout.readline().startswith(b"ready "):
                raise SmokeFailed(f"no node came up ({kind})")
            there = ["--bootstrap", f"127.0.0.1:{port}"]
            run([penstock, "topic", "create", "smoke", *there])
            run([penstock, "produce", "smoke", *there], stdin=LINES)
            found = run([penstock, "consume", "smoke", *there])
        finally:
            node.send_signal(signal.SIGTERM)
    if found != LINES or node.returncode != 0:
        raise SmokeFailed(f"{kind}: read {found!r}; the node ended with {node.returncode}")
    print(f"smoke: {version.strip()}: writes, reads and stops", flush=True)


def run(
    command: list[str], *, stdin: bytes = b"", environment: Mapping[str, str] | None = None
) -> bytes:
    """Run a command to its end; return its stdout. Raises SmokeFailed."""
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        check=False,
        timeout=COMMAND_SECONDS,
        env={**os.environ, **(environment or {})},
    )
    if done.returncode != 0:
        tail = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()[-8:]
        raise SmokeFailed("\n".join([f"{' '.join(command)}: exit code {done.returncode}", *tail]))
    return done.stdout


if __name__ == "__main__":
    end_with(lambda: main(sys.argv[1:]))
