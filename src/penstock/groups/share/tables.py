"""What the confirmed records of a share group say, indexed: see assigned/tables.py.

Source: Kafka, ShareGroup.java.
"""

from typing import Self

from penstock.groups.assigned.names import Kind
from penstock.groups.assigned.tables import NO_EPOCH, AssignedTables, SaidBytes, put
from penstock.groups.assigned.targets import GroupEpoch, Target, TargetEpoch
from penstock.groups.share.records import (
    ShareCurrent,
    Shared,
    ShareFacts,
    ShareSaid,
    decode_said,
    encode_said,
)

NOTHING_SHARED = Shared({})


def said_bytes(said: ShareSaid) -> SaidBytes:
    """Return the value of a record that says this."""
    value = SaidBytes(encode_said(said))
    value.said = said
    return value


class ShareTables(AssignedTables[ShareFacts, ShareCurrent]):
    """The tables of one group. Only `take` changes them."""

    __slots__ = ("shared",)

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.shared = NOTHING_SHARED
        """What may have a share of the group."""

    def copy(self) -> Self:
        """As in AssignedTables."""
        made = super().copy()
        made.shared = self.shared
        return made

    _decode = staticmethod(decode_said)

    def _take(self, kind: Kind, about: str, said: object) -> None:
        match kind:
            case Kind.SHARE_GROUP:
                self.said = said if isinstance(said, GroupEpoch) else GroupEpoch(NO_EPOCH)
            case Kind.SHARE_TARGET_EPOCH:
                self.target_said = said if isinstance(said, TargetEpoch) else TargetEpoch(NO_EPOCH)
            case Kind.SHARE_MEMBER:
                put(self.facts, about, said if isinstance(said, ShareFacts) else None)
            case Kind.SHARE_TARGET:
                put(self.targets, about, said if isinstance(said, Target) else None)
            case Kind.SHARE_CURRENT:
                put(self.currents, about, said if isinstance(said, ShareCurrent) else None)
            case _:
                assert kind is Kind.SHARED, kind
                self.shared = said if isinstance(said, Shared) else NOTHING_SHARED
