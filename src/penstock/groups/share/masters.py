"""The brokers where shares of groups are, as the coordinator of groups needs them.

Each share is with the master of its partition's data (ADR 0093); the coordinator of its group may
be another broker.

Source: Kafka, Persister.java (KIP-932), by which the group coordinator asks the share coordinator.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from penstock.assignors.partitions import Partitions
from penstock.base.ids import CoordinatorEpoch
from penstock.coordinator.calls.shares import (
    NO_EPOCH,
    ShareChange,
    ShareChangeKind,
    SharePlace,
    ShareSummary,
)
from penstock.protocol.error_codes import ErrorCode

Done = Callable[[ErrorCode | None], None]


class ShareMasters(Protocol):
    """Asks the masters. Who can not be asked is COORDINATOR_NOT_AVAILABLE."""

    def epoch_of(self, group_id: str) -> CoordinatorEpoch:
        """Return the leader epoch by which this broker coordinates a group, to ask for changes."""

    async def summaries(
        self, group_id: str, places: Iterable[SharePlace], *, with_deliveries: bool = False
    ) -> Mapping[SharePlace, ShareSummary]:
        """Return where shares are."""

    async def change(
        self,
        group_id: str,
        kind: ShareChangeKind,
        changes: Iterable[ShareChange],
        coordinator_epoch: CoordinatorEpoch,
    ) -> Mapping[SharePlace, ErrorCode]:
        """Let shares begin elsewhere, or be forgotten; returns once that is durable.

        `coordinator_epoch` is the one of the time when the group was looked at: masters refuse what
        comes after a change by a later coordinator.
        """

    def delete(self, group_id: str, partitions: Partitions, done: Done) -> None:
        """Delete shares; `done` gets None once none is left, else why some may be.

        Partitions of deleted topics have none.
        """

    def leave(self, group_id: str, member_id: str, partitions: Partitions) -> None:
        """Release what a member holds in these partitions, as far as the masters can be asked now.

        Else the records are free when their locks end.
        """


class NoShareMasters:
    """Those of a coordinator that can ask nobody: nothing is known, changed, or released early."""

    def epoch_of(self, group_id: str) -> CoordinatorEpoch:
        """As in ShareMasters."""
        del group_id
        return NO_EPOCH

    async def summaries(
        self, group_id: str, places: Iterable[SharePlace], *, with_deliveries: bool = False
    ) -> Mapping[SharePlace, ShareSummary]:
        """As in ShareMasters."""
        del group_id
        return {one: ShareSummary(ErrorCode.COORDINATOR_NOT_AVAILABLE) for one in places}

    async def change(
        self,
        group_id: str,
        kind: ShareChangeKind,
        changes: Iterable[ShareChange],
        coordinator_epoch: CoordinatorEpoch,
    ) -> Mapping[SharePlace, ErrorCode]:
        """As in ShareMasters."""
        del group_id, kind, coordinator_epoch
        places = (SharePlace(one.topic_id, one.partition) for one in changes)
        return dict.fromkeys(places, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def delete(self, group_id: str, partitions: Partitions, done: Done) -> None:
        """As in ShareMasters."""
        del group_id
        done(ErrorCode.COORDINATOR_NOT_AVAILABLE if partitions else None)

    def leave(self, group_id: str, member_id: str, partitions: Partitions) -> None:
        """As in ShareMasters."""
