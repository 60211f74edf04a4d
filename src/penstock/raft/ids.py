"""The numbers of Raft, one type each, beside the PeerId of base/ids.py.

These are annotations only: nothing is wrapped at run time. A number gets its type where it enters,
from a file or a setting, or where it is computed; the fields of messages have their types already
when they are decoded. Rounds and ticks are plain numbers.

Source: Raft paper 5.1 (terms) and 5.3 (indexes), Raft thesis 3; KIP-595 calls them epoch and
offset.
"""

from typing import NewType

Term = NewType("Term", int)
"""Grows with every election; at most one member leads in it (thesis 3.3). Kafka: epoch."""
NO_TERM = Term(0)
"""Before the first election, and that of what stands before the first entry."""

RaftIndex = NewType("RaftIndex", int)
"""Place of an entry in the Raft log: 1, 2, 3, ... (thesis 3.5), inclusive where it names an end.

Entries that the state machine never gets count too, unlike in the metadata log's own numbering
(runtime/raft/numbering.py).
"""
NO_INDEX = RaftIndex(0)
"""Before the first entry; in the place of an index: none."""

DirectoryId = NewType("DirectoryId", str)
"""Names the data directory of a member: with another one it is another voter (KIP-853)."""
NO_DIRECTORY = DirectoryId("")
"""Not told, or by a member that does not know it."""
