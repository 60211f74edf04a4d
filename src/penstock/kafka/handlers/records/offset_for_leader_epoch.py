"""OffsetForLeaderEpoch (key 23), versions 2 to 4: where a mastership's records end.

A consumer with a new leader requests the epoch of its last record, and sees by the end offset
whether what it has read was truncated. The answer is the largest epoch at or below the requested
one, with its end; an epoch older than all known ones ends at the log start, a newer one is unknown.
Only the master answers; its own epoch ends at the log end, confirmed or not.

Source: KIP-101, KIP-279 (largest epoch below), KIP-320; Kafka `LeaderEpochFileCache.endOffsetFor`.
Epochs are those of the replica set: partitions of one set share them.
"""

from typing import NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ids import LeaderEpoch, Offset
from penstock.broker.access import Operation
from penstock.broker.fetch.epoch_ends import EpochEnd, find_epoch_end
from penstock.broker.partitions import HostedPartition
from penstock.broker.tier.reach import first_offset
from penstock.broker.tier.view import TierView
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import led_partition
from penstock.kafka.look_ups import RequestLookUps
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from penstock.storage.read.needs_disk import Over

KEY = ApiKey.OFFSET_FOR_LEADER_EPOCH
VERSIONS = range(2, 5)
SLICED_BY = (("topics", "partitions"),)
UNKNOWN = EpochEnd(LeaderEpoch(-1), Offset(-1))


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Answer partition by partition; an index that is not in memory is read off the loop.

    The ends of earlier masterships are looked up in turns (broker/look_ups.py).
    """
    topics: list[dict[str, object]] = []
    look_ups = RequestLookUps(context.broker.look_ups, request, lambda: reply({"topics": topics}))
    for topic in request.body.topics:
        answers: list[dict[str, object]] = []
        topics.append({"topic": topic.topic, "partitions": answers})
        for wanted in topic.partitions:
            answer: dict[str, object] = {"partition": wanted.partition}
            answers.append(answer)
            try:
                current = wanted.current_leader_epoch
                hosted = led_partition(
                    context, topic.topic, wanted.partition, Operation.DESCRIBE, current
                )
                epoch = LeaderEpoch(wanted.leader_epoch)
                found = Wanted(hosted, epoch, current, answer, context.broker.tier)
                _look_up(found, look_ups)
            except PlatformError as error:
                answer["error_code"] = error_code_of(error)
    look_ups.start()


class Wanted(NamedTuple):
    """The end of a mastership in a partition, and where it goes."""

    hosted: HostedPartition
    leader_epoch: LeaderEpoch
    current_leader_epoch: LeaderEpoch
    """The one that the client knows."""
    answer: dict[str, object]
    tier: TierView | None

    def begin(self, over: Over) -> None:
        """Look the end up, if the partition is still led here."""
        hosted, epoch, current, answer, tier = self

        def done(end: EpochEnd | None, error: PlatformError | None) -> None:
            if error is not None:
                answer["error_code"] = error_code_of(error)
            else:
                start = first_offset(hosted, tier) or hosted.log.log_start_offset
                answer.update((end or EpochEnd(epoch, start))._asdict())
            over()

        try:
            hosted.check_still_led(current)
        except PlatformError as error:
            done(None, error)
        else:
            find_epoch_end(hosted, epoch, done, tier=tier)

    def drop(self) -> None:
        """The client has gone: nobody reads this answer."""
        self.answer["error_code"] = ErrorCode.REQUEST_TIMED_OUT


def _look_up(wanted: Wanted, look_ups: RequestLookUps) -> None:
    hosted, epoch = wanted.hosted, wanted.leader_epoch
    if epoch < 0 or epoch > hosted.member.epochs.latest:
        wanted.answer.update(UNKNOWN._asdict())
    elif epoch == hosted.member.leader_epoch:
        wanted.answer.update(EpochEnd(epoch, hosted.log.log_end_offset)._asdict())
    else:
        look_ups.add(wanted.begin, wanted.drop)
