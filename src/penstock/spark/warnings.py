"""Warnings of tasks and planning, as lines on stderr.

Python's own warnings would be errors in strict programs and are hidden by Spark's workers; the
stderr of a worker is in Spark's log.
"""

import sys


def warn(text: str) -> None:
    """Write one line."""
    sys.stderr.write(f"penstock: {text}\n")
    sys.stderr.flush()
