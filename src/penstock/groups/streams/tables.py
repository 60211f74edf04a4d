"""What the confirmed records of a streams group say, indexed: see assigned/tables.py.

Source: Kafka, StreamsGroup.java.
"""

from penstock.groups.assigned.currents import Current
from penstock.groups.assigned.names import Kind
from penstock.groups.assigned.tables import NO_EPOCH, AssignedTables, SaidBytes, put
from penstock.groups.assigned.targets import GroupEpoch, Target, TargetEpoch
from penstock.groups.streams.holders import Holders, move, unshare
from penstock.groups.streams.records import (
    MemberFacts,
    Said,
    StreamsEpoch,
    decode_said,
    encode_said,
)
from penstock.groups.streams.topology import Topology


def said_bytes(said: Said) -> SaidBytes:
    """Return the value of a record that says this."""
    value = SaidBytes(encode_said(said))
    value.said = said
    return value


class StreamsTables(AssignedTables[MemberFacts, Current]):
    """The tables of one group. Only `take` changes them."""

    __slots__ = ("holders", "own_keys", "streams_said", "topology")

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.own_keys: set[bytes] | None = None
        """In what was a copy, the keys whose holders it does not share with the original."""
        self.streams_said = StreamsEpoch(NO_EPOCH)
        self.topology: Topology | None = None
        self.holders: Holders = {}

    def copy(self) -> "StreamsTables":
        """As in AssignedTables."""
        made = super().copy()
        made.own_keys = set()
        made.streams_said, made.topology = self.streams_said, self.topology
        made.holders = {**self.holders}
        return made

    _decode = staticmethod(decode_said)

    def _take(self, kind: Kind, about: str, said: object) -> None:
        match kind:
            case Kind.STREAMS_GROUP:
                none = StreamsEpoch(NO_EPOCH)
                self.streams_said = said if isinstance(said, StreamsEpoch) else none
                self.said = GroupEpoch(self.streams_said.epoch, self.streams_said.topics_hash)
            case Kind.STREAMS_TARGET_EPOCH:
                self.target_said = said if isinstance(said, TargetEpoch) else TargetEpoch(NO_EPOCH)
            case Kind.STREAMS_MEMBER:
                put(self.facts, about, said if isinstance(said, MemberFacts) else None)
            case Kind.STREAMS_TARGET:
                put(self.targets, about, said if isinstance(said, Target) else None)
            case Kind.STREAMS_CURRENT:
                self._take_current(about, said if isinstance(said, Current) else None)
            case _:
                assert kind is Kind.STREAMS_TOPOLOGY, kind
                self.topology = said if isinstance(said, Topology) else None

    def _take_current(self, member_id: str, current: Current | None) -> None:
        before = self.currents.get(member_id)
        if self.own_keys is not None:
            unshare(self.own_keys, self.holders, self.holders, before=before, after=current)
        move(self.holders, member_id, before, current)
        put(self.currents, member_id, current)
