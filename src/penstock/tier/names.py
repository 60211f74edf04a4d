"""Names of objects, and what a name tells.

    <cluster>/sets/<set>/<leader epoch>/<object id>.extents

    <cluster>/probes/<16 hexadecimal digits>      what a node has tried the store with, for a moment

cluster: 32 hexadecimal digits; set and leader epoch: 8; object id: 16. An id is never used again,
so a name has the same bytes whenever it has any. The epoch's directory is there for stores that
can refuse who writes into a directory that was deleted (HDFS).

Source: docs/formats/tier.md, docs/adr/0117.
"""

import re
from typing import NamedTuple

from penstock.base.ids import LeaderEpoch

PROBE_BYTES = 8
"""Random, of a probe's name."""
SUFFIX = ".extents"
_PROBE = re.compile(r"[0-9a-f]{32}/probes/[0-9a-f]{16}")
_NAME = re.compile(r"([0-9a-f]{32})/sets/([0-9a-f]{8})/([0-9a-f]{8})/([0-9a-f]{16})\.extents")


class ObjectName(NamedTuple):
    """An object's place: everything that its name tells."""

    cluster_id: bytes
    replica_set_id: int
    leader_epoch: LeaderEpoch
    object_id: int

    def __str__(self) -> str:
        return (
            f"{prefix_of(self.cluster_id)}/{self.replica_set_id:08x}/{self.leader_epoch:08x}"
            f"/{self.object_id:016x}{SUFFIX}"
        )


def prefix_of(cluster_id: bytes) -> str:
    """Return the prefix of all objects of a cluster."""
    return f"{cluster_id.hex()}/sets"


def probes_of(cluster_id: bytes) -> str:
    """Return the prefix of all probes of a cluster."""
    return f"{cluster_id.hex()}/probes"


def is_probe(name: str) -> bool:
    """Whether a name is that of a probe."""
    return _PROBE.fullmatch(name) is not None


def parse_name(name: str) -> ObjectName | None:
    """Return what a name tells; None: it is no object's."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    cluster, *numbers = found.groups()
    set_id, epoch, object_id = (int(number, 16) for number in numbers)
    return ObjectName(bytes.fromhex(cluster), set_id, LeaderEpoch(epoch), object_id)
