"""What the tier's metadata is told and asked, and its answers.

    Fence  ─► Fenced(tenure)            the first act of a mastership
    Read   ─► Manifests                 partitions as they are after everything before
    Reserve ─► Reserved(ids)            ids for objects, good until a deadline
    Commit ─► Committed                 events of many partitions at once, all or none of them
    Swept, Adopt, Tick ─► Done          the store was told to delete; an orphan was found; time
    any of them ─► Refused(reason)

A command that is sent again, since its answer was lost, changes nothing and is answered as before.

Source: docs/requirements.md T-2, T-3, T-4; docs/adr/0117.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from penstock.base.ids import LeaderEpoch, TopicPartition
from penstock.tier.metadata.manifest import EventGroup, Snapshot
from penstock.tier.names import ObjectName


class Tenure(NamedTuple):
    """The right of one mastership to write; a newer one of the same set ends it."""

    replica_set_id: int
    leader_epoch: LeaderEpoch
    number: int
    """Rises with each fence of the set, also of the same leader epoch: a master may resume."""


class Fence(NamedTuple):
    """Begin a tenure."""

    replica_set_id: int
    leader_epoch: LeaderEpoch
    nonce: bytes
    """Random; tells the same fence, sent again, from another one."""


class Read(NamedTuple):
    """Ask for partitions. It is no write: readers ask it, too."""

    partitions: tuple[TopicPartition, ...]


class Reserve(NamedTuple):
    """Ask for ids of objects that are to be uploaded."""

    tenure: Tenure
    request_id: int
    """Rises within a tenure."""
    object_count: int
    is_to_replace: bool = False
    """Whether they take the place of others, so that there are fewer runs in the end."""


class Written(NamedTuple):
    """An object that lies in the store, whole."""

    object_id: int
    object_bytes: int


class Expected(NamedTuple):
    """An event, and which one was the last before it as its writer knows it."""

    last_event_id: int
    group: EventGroup


class Commit(NamedTuple):
    """Make events so, at most one of each partition. Their runs are in `objects`."""

    tenure: Tenure
    request_id: int
    objects: tuple[Written, ...]
    events: tuple[Expected, ...]


class Swept(NamedTuple):
    """The store has deleted an object that was due since `due_ms`, or did not have it."""

    object_id: int
    due_ms: int


class Adopt(NamedTuple):
    """An object lies in the store that the metadata does not know: it is to be deleted."""

    name: ObjectName


class Tick(NamedTuple):
    """Time has passed."""


Command = Fence | Read | Reserve | Commit | Swept | Adopt | Tick


class Reason(Enum):
    """Why a command is refused."""

    FENCED = "another tenure of the set has begun"
    REPEATED = "a later request of the tenure was answered already"
    UNKNOWN_OBJECT = "an object is not reserved, or no longer"
    STALE = "the partition has events that the writer does not know"
    DOES_NOT_FOLLOW = "an event that can not follow"
    TAKEN = "another object has the id"
    FULL = "the metadata has as many runs as it may have"


class Refused(NamedTuple):
    """Nothing was changed."""

    reason: Reason


class Fenced(NamedTuple):
    """The tenure that writes are to name."""

    tenure: Tenure


class Manifests(NamedTuple):
    """The partitions asked for."""

    snapshots: Mapping[TopicPartition, Snapshot]


class Reserved(NamedTuple):
    """Ids that nobody had before."""

    object_ids: tuple[int, ...]


class Committed(NamedTuple):
    """All events are so."""


class Done(NamedTuple):
    """Taken note of."""


Answer = Refused | Fenced | Manifests | Reserved | Committed | Done
