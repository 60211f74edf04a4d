"""OffsetForLeaderEpoch (key 23), versions 2 to 4: where a mastership's records end.

A consumer with a new leader requests the epoch of its last record, and sees by the end offset
whether what it has read was truncated. The answer is the largest epoch at or below the requested
one, with its end; an epoch older than all known ones ends at the log start, a newer one is unknown.
Only the master answers; its own epoch ends at the log end, confirmed or not.

Source: KIP-101, KIP-279 (largest epoch below), KIP-320; Kafka `LeaderEpochFileCache.endOffsetFor`.
Epochs are those of the replica set: partitions of one set share them.
"""

from penstock.base.errors import PlatformError
from penstock.broker.access import Operation
from penstock.broker.fetch.epoch_ends import EpochEnd, find_epoch_end
from penstock.broker.partitions import HostedPartition
from penstock.kafka.context import RequestContext
from penstock.kafka.error_map import error_code_of
from penstock.kafka.gate import led_partition
from penstock.kafka.pending_answer import PendingAnswer
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.OFFSET_FOR_LEADER_EPOCH
VERSIONS = range(2, 5)
SLICED_BY = (("topics", "partitions"),)
UNKNOWN = EpochEnd(-1, -1)


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Answer partition by partition; an index that is not in memory is read off the loop."""
    topics: list[dict[str, object]] = []
    pending = PendingAnswer(reply, {"topics": topics})
    for topic in request.body.topics:
        answers: list[dict[str, object]] = []
        topics.append({"topic": topic.topic, "partitions": answers})
        for wanted in topic.partitions:
            answer: dict[str, object] = {"partition": wanted.partition}
            answers.append(answer)
            try:
                hosted = led_partition(
                    context,
                    topic.topic,
                    wanted.partition,
                    Operation.DESCRIBE,
                    wanted.current_leader_epoch,
                )
                _look_up(hosted, wanted.leader_epoch, answer, pending)
            except PlatformError as error:
                answer["error_code"] = error_code_of(error)
    pending.end()


def _look_up(
    hosted: HostedPartition, epoch: int, answer: dict[str, object], pending: PendingAnswer
) -> None:
    if epoch < 0 or epoch > hosted.member.epochs.latest:
        answer.update(UNKNOWN._asdict())
        return
    if epoch == hosted.member.leader_epoch:
        answer.update(EpochEnd(epoch, hosted.log.log_end_offset)._asdict())
        return

    def done(end: EpochEnd | None, error: PlatformError | None) -> None:
        if error is not None:
            answer["error_code"] = error_code_of(error)
        else:
            found = end or EpochEnd(epoch, hosted.log.log_start_offset)
            answer.update(found._asdict())
        pending.end()

    pending.begin()
    find_epoch_end(hosted, epoch, done)
