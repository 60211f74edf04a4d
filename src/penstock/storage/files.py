"""Which files make up a log, and why each of them is kept.

Source: the layout in docs/formats/commit-log.md. It reads names, not contents. May wait.
"""

from penstock.base.ports import Disk
from penstock.storage.durable_mark import mark_path
from penstock.storage.pending_change import PARTS, PendingChange


def has_log(disk: Disk, directory: str) -> bool:
    """Return whether anything of a log was ever made in the directory.

    A directory of which nothing is left but the name of the log (node/replica_file.py) has lost it.
    """
    if any(disk.list(f"{directory}/{part}") for part in PARTS):
        return True
    names = {f"{directory}/{name}" for name in disk.list(directory)}
    return not names.isdisjoint({mark_path(directory), PendingChange.path(directory)})
