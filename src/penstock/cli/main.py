"""The entry point of `penstock`: prepares the standard streams and Ctrl-C, then loads the commands.

Loading the commands takes a tenth of a second or more. Until then Ctrl-C ends the process silently,
as by default; afterwards the guard in `program` handles it.
"""

import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command and end the process with its exit code."""
    is_asked = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_asked:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _open_missing_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # so that any name can be printed
    from penstock.cli.launch.loading import loading

    with loading():
        from penstock.cli.program import guarded

    if is_asked:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(guarded(arguments))


def _open_missing_streams() -> None:
    """Open the null device if the caller has closed stdin, stdout or stderr.

    Otherwise the next file or connection would get the free descriptor.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, mode))


if __name__ == "__main__":
    run()
