"""New files on a local disk: written whole, durable, and made by one writer alone.

Source: POSIX `link`, which fails where the name is taken; `fsync` of file and directory.
"""

import os
from pathlib import Path


def write_new(path: Path, content: bytes) -> None:
    """Write a file that must not exist yet; raises FileExistsError. Its directory must exist."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    finally:
        draft.unlink()
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
