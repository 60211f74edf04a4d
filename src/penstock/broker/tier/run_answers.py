"""Tells slaves which runs of a partition the tier has, so that they read the store themselves.

Source: docs/adr/0162; the asking side is runtime/tier/told.py.
"""

from collections.abc import Iterable, Iterator

from penstock.base.ids import ReplicaSetId, TopicId
from penstock.broker.broker import Broker
from penstock.broker.partitions import HostedPartition, hosted_partition
from penstock.broker.tier.telling import told_tier
from penstock.coordinator.calls.tier import (
    RUNS_BYTES_MAX,
    RUNS_MAX,
    TierRunsRequest,
    TierRunsResponse,
)
from penstock.replica.replica_set import Role
from penstock.tier.metadata.run_bytes import encode_run


class RunAnswers:
    """The handler of one broker."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def give(self, question: TierRunsRequest) -> TierRunsResponse:
        """Answer with what the tier has from the asked offset on, as far as one answer goes."""
        tier, hosted = self._broker.tier, self._led(question)
        if tier is None or hosted is None:
            return TierRunsResponse(is_known=False)
        told = told_tier(self._broker, hosted, question.offset, RUNS_MAX)
        if told is None:
            return TierRunsResponse(is_known=False)
        return TierRunsResponse(
            is_known=True,
            start_offset=told.start_offset,
            lease_ms=tier.place.lease_ms,
            runs=tuple(_first_of(map(encode_run, told.runs))),
        )

    def _led(self, question: TierRunsRequest) -> HostedPartition | None:
        """Return the partition if it is led here by the mastership that is asked."""
        member = self._broker.members.get(ReplicaSetId(question.replica_set_id))
        topic = self._broker.partitions.by_id.get(TopicId(question.topic_id))
        hosted = hosted_partition(topic, question.partition)
        if member is None or hosted is None or hosted.member is not member:
            return None
        is_led = member.role is Role.MASTER and member.leader_epoch == question.leader_epoch
        return hosted if is_led else None


def _first_of(runs: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the first runs, up to the bytes of an answer."""
    left = RUNS_BYTES_MAX
    for run in runs:
        left -= len(run)
        if left < 0:
            return
        yield run
