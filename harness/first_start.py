"""What a Raft member's files begin with, where there are none yet."""

import itertools

from penstock.raft.configuration import Configuration
from penstock.raft.ids import DirectoryId
from penstock.runtime.raft.storage import FirstStart

_numbers = itertools.count(1)


def first_start(members: Configuration) -> FirstStart:
    """Begin with these first voters; every new log gets another directory id."""
    return FirstStart(
        members=members,
        new_directory_id=lambda: DirectoryId(f"directory-{next(_numbers)}"),
    )
