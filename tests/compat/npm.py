"""Clients for Node.js from the npm registry, kept outside the repository.

What has a native part is built here, against the libraries of the system, where npm finds none that
was built before: that takes a compiler and some minutes, once.
"""

import functools
import os
import shutil
import subprocess
from pathlib import Path

from harness.maven import CACHE

PROJECTS = Path(__file__).resolve().parent / "node"
INSTALL_SECONDS = 900
INSTALL = ("npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts")
BUILD = ("npm", "run", "build", "--if-present")
"""The project says which of its modules have something to build: npm does not do that unasked."""


@functools.cache
def node_modules(project: str) -> Path | str:
    """Return where the modules of tests/compat/node/<project> are, or why there are none."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    target = CACHE / f"node-{project}"
    wanted = (PROJECTS / project / "package.json").read_bytes()
    stamp = target / "complete"
    if not (stamp.exists() and stamp.read_bytes() == wanted):
        reason = _install(wanted, target)
        if reason is not None:
            return reason
        stamp.write_bytes(wanted)
    return target / "node_modules"


def _install(package: bytes, target: Path) -> str | None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    (target / "package.json").write_bytes(package)
    # Linked dynamically, librdkafka takes the system's libraries; else its build loads sources.
    environment = {**os.environ, "CKJS_LINKING": "dynamic", **_own_headers()}
    for command in (INSTALL, BUILD):
        reason = _run(command, target, environment)
        if reason is not None:
            return reason
    return None


def _run(command: tuple[str, ...], target: Path, environment: dict[str, str]) -> str | None:
    try:
        done = subprocess.run(
            command,
            cwd=target,
            env=environment,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"npm did not end in {INSTALL_SECONDS} s"
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.startswith("npm error")]
        return f"npm failed: {(lines or ['no message'])[0][:300]}"
    return None


def _own_headers() -> dict[str, str]:
    """Return the setting that builds against the headers that came with node, if they did."""
    node = shutil.which("node")
    prefix = Path(node or "/").resolve().parents[1]
    is_there = (prefix / "include" / "node" / "node.h").exists()
    return {"npm_config_nodedir": str(prefix)} if is_there else {}
