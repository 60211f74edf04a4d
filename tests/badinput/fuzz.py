"""Coverage-guided fuzzing of parsers: `python -m tests.badinput.fuzz --parser raft --seconds 60`.

atheris drives it (libFuzzer; requirements/fuzz.lock): it keeps the inputs that reach new code and
mutates them further. A find ends it with exit code 77 and leaves the input in a file `crash-...`;
`--input FILE` runs one file through its parser without atheris. The corpus grows in build/fuzz;
`--keep` writes the smallest inputs that together reach everything to tests/badinput/corpus, where
the ordinary tests find them.
"""

import argparse
import importlib
import os
import random
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parent / "corpus"
WORK = Path("build/fuzz")
INPUT_BYTES_MAX = 4_096
KEPT_BYTES_MAX = 14 << 10
"""Of each parser; all together stay below 200 KB."""
TURNS_MAX = 20
NAMES = (
    "request",
    "response",
    "batch",
    "compression",
    "handshake",
    "raft",
    "session",
    "ha",
    "metadata",
    "command",
    "answer",
    "group",
    "configuration",
    "base-manifest",
    "http2",
    "header-block",
    "protobuf",
    "telemetry",
)


def main() -> int:
    """Read the command line."""
    reader = argparse.ArgumentParser(prog="python -m tests.badinput.fuzz", description=__doc__)
    reader.add_argument("--parser", choices=NAMES, action="append", help="every one when left out")
    reader.add_argument("--seconds", type=int, default=60, help="of CPU time, for each")
    reader.add_argument("--seed", type=int, default=1)
    reader.add_argument("--input", type=Path)
    reader.add_argument("--keep", action="store_true", help="renew tests/badinput/corpus")
    reader.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    given = reader.parse_args()
    names = given.parser or list(NAMES)
    if given.input:
        return _run_one(names[0], given.input)
    if given.in_process:
        _fuzz(names[0], given.seconds, given.seed)
    return max(_in_own_process(name, given) for name in names)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _run_one(name: str, file: Path) -> int:
    parsers = importlib.import_module("tests.badinput.parsers")
    was_taken = parsers.survives(parsers.PARSERS[name], file.read_bytes())
    _say("taken" if was_taken else "refused")
    return 0


def _in_own_process(name: str, given: Any) -> int:
    """libFuzzer ends its process and counts time by the clock: repeat until the CPU time is up."""
    (WORK / name).mkdir(parents=True, exist_ok=True)
    used, runs, code, last = 0.0, 0, 0, ""
    lines: list[str] = []
    for turn in range(TURNS_MAX):
        left = int(given.seconds - used) + 1
        command = [sys.executable, "-m", "tests.badinput.fuzz", "--in-process", "--parser", name]
        command += ["--seconds", str(left), "--seed", str(given.seed + turn)]
        before = _children_seconds()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        used += _children_seconds() - before
        code, lines = done.returncode, done.stderr.splitlines()
        last = next((line for line in reversed(lines) if "cov:" in line), last)
        runs += int(last[1:].split()[0]) if last.startswith("#") else 0
        if code or used >= given.seconds:
            break
    _say(f"{name}: {runs:,} inputs, {used:.0f} CPU seconds, exit code {code}; {last}")
    if code:
        _say("\n".join(lines[-60:]))
    elif given.keep:
        _say(f"{name}: {_keep(name)} inputs kept")
    return code


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _fuzz(name: str, seconds: int, seed: int) -> None:
    """Fuzz until the time is over; does not return."""
    atheris = importlib.import_module("atheris")

    with atheris.instrument_imports(include=["penstock"]):
        parsers = importlib.import_module("tests.badinput.parsers")
    parser = parsers.PARSERS[name]
    directory = WORK / name
    for at, example in enumerate(parser.examples(random.Random(seed))):
        (directory / f"example-{at:03}").write_bytes(example)

    def once(data: bytes) -> None:
        parsers.survives(parser, data)

    flags = [
        sys.argv[0],
        f"-max_total_time={seconds}",
        f"-max_len={INPUT_BYTES_MAX}",
        f"-seed={seed}",
        "-rss_limit_mb=1024",
        "-timeout=10",
        f"-artifact_prefix={WORK}/{name}-",
        str(directory),
    ]
    if CORPUS.joinpath(name).is_dir():
        flags.append(str(CORPUS / name))
    atheris.Setup(flags, once)
    atheris.Fuzz()


def _keep(name: str) -> int:
    """Copy the smallest inputs that together run every line that all of them run."""
    parsers = importlib.import_module("tests.badinput.parsers")
    parser = parsers.PARSERS[name]
    target = CORPUS / name
    target.mkdir(parents=True, exist_ok=True)
    files = sorted((WORK / name).iterdir(), key=lambda file: file.stat().st_size)
    old = sorted(target.iterdir(), key=lambda file: file.stat().st_size)
    reached: set[tuple[str, int, int]] = set()
    kept: list[bytes] = []
    for data in dict.fromkeys(file.read_bytes() for file in [*old, *files]):
        lines = _lines_of(lambda data=data: parsers.survives(parser, data))
        if lines <= reached or sum(map(len, kept)) + len(data) > KEPT_BYTES_MAX:
            continue
        reached |= lines
        kept.append(data)
    for file in old:
        file.unlink()
    for at, data in enumerate(kept):
        (target / f"{at:03}.bin").write_bytes(data)
    return len(kept)


def _lines_of(work: Any) -> set[tuple[str, int, int]]:
    """Return the steps from line to line that `work` takes within the product."""
    found: set[tuple[str, int, int]] = set()
    marker = f"{os.sep}penstock{os.sep}"

    def trace(frame: Any, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if marker not in file:
            return None
        last = 0

        def local(frame: Any, event: str, _: Any) -> Any:
            nonlocal last
            found.add((file, last, frame.f_lineno))
            last = frame.f_lineno
            return local

        return local

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return found


if __name__ == "__main__":
    sys.exit(main())
