"""Changes of a share group that are being decided: see assigned/draft.py.

Source: Kafka, ShareGroupAssignmentBuilder.java.
"""

from penstock.groups.assigned.draft import AssignedDraft
from penstock.groups.assigned.names import Kind
from penstock.groups.share.group import ShareGroup
from penstock.groups.share.records import ShareCurrent, Shared, ShareFacts
from penstock.groups.share.tables import said_bytes


class ShareDraft(AssignedDraft[ShareGroup, ShareFacts, ShareCurrent]):
    """The group with some changes."""

    __slots__ = ("shared",)

    MEMBER, TARGET, CURRENT = Kind.SHARE_MEMBER, Kind.SHARE_TARGET, Kind.SHARE_CURRENT
    _encode = staticmethod(said_bytes)

    def __init__(self, group: ShareGroup) -> None:
        super().__init__(group)
        self.shared = group.shared

    def put_shared(self, shared: Shared) -> None:
        """Change what may have a share."""
        if shared != self.shared:
            self.shared = shared
            self.put(Kind.SHARED, "", shared)
