"""One line on stderr: the only thing a task or a planning process can say without failing.

Python's own warnings would be errors in strict programs and are hidden by Spark's workers; the
stderr of a worker ends in Spark's log.
"""

import sys


def warn(text: str) -> None:
    """Write one line."""
    sys.stderr.write(f"penstock: {text}\n")
    sys.stderr.flush()
