#!/usr/bin/env python3
"""Runs a command that takes minutes and says how far it is.

    progress.py NAME [--in DIR] COMMAND...

On a terminal one line is drawn over and over; elsewhere a line comes every few seconds, so that
nobody has to wonder whether anything happens. A line names the seconds, the megabytes that lie in
DIR, and what the command said last that is no warning, or the command while it has said nothing.
When it fails, the end of what it said follows, and the exit code is the command's.

It needs nothing but Python: it runs before anything is installed.
"""

import collections
import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

TAIL_LINES = 40
TERMINAL_SECONDS = 0.5
LINE_SECONDS = 5.0
COMMAND_LETTERS = 80
WARNING = ("WARNING:", "warning:")
"""Of pip, and of compilers: no step of the way, and the next step may be minutes off."""


class Told:
    """What the command has said so far; filled by a thread of its own."""

    def __init__(self, stream: Iterable[str], at_first: str) -> None:
        self.lines: collections.deque[str] = collections.deque(maxlen=TAIL_LINES)
        self.last = at_first
        self.thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self.thread.start()

    def _read(self, stream: Iterable[str]) -> None:
        for line in stream:
            text = " ".join(line.split())
            if text:
                self.lines.append(text)
                if not text.startswith(WARNING):
                    self.last = text


def megabytes(directory: str) -> int:
    """Return how much lies in a directory, files that come and go meanwhile left out."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(folder, name).lstat().st_size
    return total // 1_000_000


def main(arguments: list[str]) -> int:
    name, directory, command = arguments[0], "", arguments[1:]
    if command[0] == "--in":
        directory, command = command[1], command[2:]
    began = time.monotonic()
    is_terminal = sys.stdout.isatty()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    told = Told(process.stdout, " ".join(" ".join(command).split())[:COMMAND_LETTERS])
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(TERMINAL_SECONDS if is_terminal else LINE_SECONDS)
            break
        size = f", {megabytes(directory):,} MB" if directory else ""
        text = f"{name}: {time.monotonic() - began:.0f} s{size}: {told.last}"
        if is_terminal:
            width = shutil.get_terminal_size().columns - 1
            sys.stdout.write(f"\r\x1b[2K{text[:width]}")
        else:
            sys.stdout.write(f"{text[:150]}\n")
        sys.stdout.flush()
    told.thread.join()
    if is_terminal:
        sys.stdout.write("\r\x1b[2K")
    if process.returncode != 0:
        print(*told.lines, sep="\n", file=sys.stderr)
        print(f"{name}: failed: {' '.join(command)}", file=sys.stderr)
    return process.returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
