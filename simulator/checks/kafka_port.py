"""Check: answers to Kafka clients are correct at the moment in which they are decided.

    answer                          must hold
    Fetch                           the high watermark follows from the confirm position; no batch
                                    lies above it; the first one has the requested offset; the
                                    client's leader epoch, if given, is the broker's; a client that
                                    has read beyond the end of an epoch is told so (KIP-595)
    ListOffsets (latest, earliest)  the same ends and epochs
    OffsetForLeaderEpoch            the end of the mastership, by the frames on the disk
    Produce with acks=all           the records lie below the confirm position; as many members are
                                    in step as the topic and the policy require
    any read                        the master's lease holds (masterships.py)

Offsets are counted in the frames on the simulated disk, not by the log's index. Only masters'
answers are checked, since slaves learn the confirm position later.

Source: KIP-101, KIP-207, KIP-320, KIP-595; docs/adr/0013, 0026.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from struct import Struct
from typing import Any

from penstock.broker.append.append import ACKS_ALL
from penstock.broker.fetch.operation import FetchOperation
from penstock.broker.fetch.partition_read import PartitionRead
from penstock.broker.partitions import HostedPartition
from penstock.broker.tier.reach import is_tiered
from penstock.kafka.context import RequestContext
from penstock.kafka.dispatch import Dispatcher
from penstock.kafka.front import KafkaFront
from penstock.kafka.produce.pending import PendingProduce, PendingRun
from penstock.node.node import Node
from penstock.protocol.api_keys import ApiKey
from penstock.replica.replica_set import ReplicaSetMember, Role
from simulator.checks.masters.masterships import Masterships
from simulator.checks.partition_ends import Ends, EpochEnd, PartitionEnds
from simulator.checks.patched import patched
from simulator.kernel.process import current_process
from simulator.run.server import Server

Found = Callable[[str], None]
Real = Callable[..., Any]

LATEST, EARLIEST = -1, -2
UNKNOWN = -1

_HEAD = Struct(">qi")
_LAST_DELTA = Struct(">i")
_LENGTH_BEFORE, _LAST_DELTA_AT = 12, 23


class KafkaPort:
    """See the module. One for all brokers of a run."""

    def __init__(
        self, servers: Mapping[str, Server], masterships: Masterships, found: Found
    ) -> None:
        self._servers = servers
        self._masterships = masterships
        self._found = found
        self._ends = PartitionEnds()
        self._waiting_for_all: dict[int, PendingProduce] = {}
        """By identity."""
        self.answers = 0
        """How many were looked at."""

    def _tell(self, member: ReplicaSetMember, partition: int, wrong: str) -> None:
        host = current_process().host
        self._found(
            f"{host}: partition {partition} of set {member.replica_set_id} in epoch"
            f" {member.leader_epoch}: {wrong}"
        )

    def _end(self, hosted: HostedPartition) -> int | None:
        """Return the high watermark by the frames; None where they do not say, or may lie."""
        member, server = hosted.member, self._servers[current_process().host]
        if server.is_disk_damaged or member.log.is_busy:
            return None
        placed = hosted.log.topic_partition
        ends = self._ends.of(server, member)
        return ends.end_of((placed.partition, bytes(placed.topic_id)), member.confirm_position)

    def _wrong_read(self, hosted: HostedPartition, leader_epoch: int) -> Iterator[str]:
        """Yield what any read breaks: of epochs, and of the lease."""
        self.answers += 1
        member = hosted.member
        if leader_epoch not in {UNKNOWN, member.leader_epoch}:
            yield f"a client of epoch {leader_epoch} is answered"
        if wrong := self._masterships.may_read(current_process().host, member):
            yield wrong

    # --- Fetch ---------------------------------------------------------------------------------

    def _looked(self, read: PartitionRead) -> Iterator[str]:
        hosted = read.hosted
        if hosted is None or read.error is not None:
            return
        if hosted.member.role is not Role.MASTER:
            return
        yield from self._wrong_read(hosted, read.wanted.leader_epoch)
        end = self._end(hosted)
        if end is not None and read.high_watermark != end:
            yield f"a fetch says that {read.high_watermark} is the end, and {end} is confirmed"
        # Before the tier's metadata is loaded nobody knows where a topic with local limits begins.
        is_unknown = read.log_start_offset == UNKNOWN and is_tiered(hosted)
        if not is_unknown and not 0 <= read.log_start_offset <= read.high_watermark:
            yield f"a fetch says that the log begins at {read.log_start_offset}"
        yield from self._diverging(hosted, read)

    def _diverging(self, hosted: HostedPartition, read: PartitionRead) -> Iterator[str]:
        wanted, member = read.wanted, hosted.member
        epoch = wanted.last_fetched_epoch
        server = self._servers[current_process().host]
        if epoch > member.leader_epoch and read.diverging is not None:
            yield f"who has read in epoch {epoch}, which is not known, hears {read.diverging}"
        if not 0 <= epoch < member.leader_epoch or server.is_disk_damaged or member.log.is_busy:
            return
        ends, placed = self._ends.of(server, member), hosted.log.topic_partition
        key = placed.partition, bytes(placed.topic_id)
        end = ends.epoch_end(key, epoch)
        if end is None or end.end_offset < hosted.log.log_start_offset:
            return
        if read.diverging is not None and _is_without_batch(hosted, ends, end, read.diverging):
            return
        is_other = end.leader_epoch < epoch or end.end_offset < wanted.fetch_offset
        if is_other != (read.diverging is not None):
            yield (
                f"who has read up to {wanted.fetch_offset} in epoch {epoch} hears {read.diverging},"
                f" and that ended at {end}"
            )

    @staticmethod
    def _fetched(read: PartitionRead) -> Iterator[str]:
        """Check that the batches are contiguous from the requested offset on."""
        at, expected = 0, read.wanted.fetch_offset
        data = b"".join(read.buffers)
        while len(data) - at >= _LAST_DELTA_AT + _LAST_DELTA.size:
            base, length = _HEAD.unpack_from(data, at)
            last = base + _LAST_DELTA.unpack_from(data, at + _LAST_DELTA_AT)[0]
            is_there = base <= expected <= last if not at else base == expected
            if not is_there:
                yield f"a fetch of {read.wanted.fetch_offset} gets a batch from {base} to {last}"
                return
            expected, at = last + 1, at + _LENGTH_BEFORE + length
        if at and expected > read.high_watermark:
            yield f"a fetch gets records up to {expected}, above {read.high_watermark}"

    # --- what is decoded -----------------------------------------------------------------------

    def _listed(self, broker: Any, body: Any, fields: Mapping[str, Any]) -> None:
        wanted = {
            (topic.name, partition.partition_index): partition
            for topic in body.topics
            for partition in topic.partitions
        }
        for topic in fields["topics"]:
            for answer in topic["partitions"]:
                one = wanted[topic["name"], answer["partition_index"]]
                hosted = broker.partitions.find(topic["name"], answer["partition_index"])
                if answer.get("error_code", 0) or hosted is None:
                    continue
                for wrong in self._wrong_listed(hosted, one, answer["offset"]):
                    self._tell(hosted.member, hosted.partition, wrong)

    def _wrong_listed(self, hosted: HostedPartition, one: Any, offset: int) -> Iterator[str]:
        if one.timestamp not in {LATEST, EARLIEST}:
            return
        member = hosted.member
        yield from self._wrong_read(hosted, getattr(one, "current_leader_epoch", UNKNOWN))
        if one.timestamp == EARLIEST:
            return
        end = self._end(hosted)
        if end is not None and offset != end:
            yield f"the latest offset is said to be {offset}, and {end} is confirmed"
        if member.confirm_position < member.epoch_start:
            yield f"the latest offset is told before {member.epoch_start} is confirmed"

    def _epochs_told(self, broker: Any, body: Any, fields: Mapping[str, Any]) -> None:
        wanted = {
            (topic.topic, partition.partition): partition
            for topic in body.topics
            for partition in topic.partitions
        }
        for topic in fields["topics"]:
            for answer in topic["partitions"]:
                one = wanted[topic["topic"], answer["partition"]]
                hosted = broker.partitions.find(topic["topic"], answer["partition"])
                if answer.get("error_code", 0) or hosted is None:
                    continue
                if hosted.member.role is Role.MASTER:
                    for wrong in self._wrong_epoch_end(hosted, one, answer):
                        self._tell(hosted.member, hosted.partition, wrong)

    def _wrong_epoch_end(
        self, hosted: HostedPartition, one: Any, answer: Mapping[str, Any]
    ) -> Iterator[str]:
        member, epoch = hosted.member, one.leader_epoch
        server = self._servers[current_process().host]
        told = (answer["leader_epoch"], answer["end_offset"])
        self.answers += 1
        if one.current_leader_epoch not in {UNKNOWN, member.leader_epoch}:
            yield f"a client of epoch {one.current_leader_epoch} is told of epochs"
        if epoch > member.leader_epoch or epoch < 0:
            expected: tuple[int, int] | None = (UNKNOWN, UNKNOWN)
        elif epoch == member.leader_epoch:
            expected = (epoch, hosted.log.log_end_offset)
        elif server.is_disk_damaged or member.log.is_busy:
            return
        else:
            placed = hosted.log.topic_partition
            ends = self._ends.of(server, member)
            ends.read_to(member.confirm_position)
            key = placed.partition, bytes(placed.topic_id)
            found = ends.epoch_end(key, epoch)
            if found is None or found.end_offset < hosted.log.log_start_offset:
                return
            expected = found
            if _is_without_batch(hosted, ends, found, told):
                expected = told
        if told != expected:
            yield f"epoch {epoch} is said to be {told}, and it is {expected}"

    # --- Produce -------------------------------------------------------------------------------

    def _produced(self, pending: PendingProduce) -> None:
        if self._waiting_for_all.pop(id(pending), None) is None:
            return
        for answer in pending._answers:  # noqa: SLF001  what is about to be sent
            hosted = pending._hosted(answer)  # noqa: SLF001
            if answer.error_code or hosted is None or hosted.topic.internal:
                continue
            self.answers += 1
            for wrong in self._wrong_produced(hosted, answer.base_offset):
                self._tell(hosted.member, hosted.partition, wrong)

    def _wrong_produced(self, hosted: HostedPartition, base_offset: int) -> Iterator[str]:
        member = hosted.member
        end = self._end(hosted)
        if end is not None and base_offset >= end:
            yield f"offset {base_offset} is acknowledged, and {end} is confirmed"
        node = self._servers[current_process().host].node
        one = None
        if isinstance(node, Node):
            one = node.image.replica_sets.get(member.replica_set_id)
        if one is None or member.role is not Role.MASTER:
            return
        asked = min(hosted.topic.rules.min_insync_replicas, len(one.replicas))
        least, in_step = max(asked, one.policy.minimum), len(one.sync_state_set)
        if in_step < least:
            yield f"a write is acknowledged with {in_step} members in step, and {least} are asked"

    # --- listening -----------------------------------------------------------------------------

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """Look at every answer for as long as this lasts; one run at a time in a process."""
        with ExitStack() as stack:
            for owner, name, around in (
                (FetchOperation, "_look", self._looks),
                (FetchOperation, "_finish_when_loaded", self._finishes),
                (PendingProduce, "park", self._parks),
                (PendingProduce, "_send", self._sends),
                (PendingRun, "_send", self._sends),
                (Dispatcher, "__init__", self._made),
            ):
                stack.enter_context(patched(owner, name, around))
            yield

    def _looks(self, real: Real, fetch: FetchOperation) -> bool:
        is_ready: bool = real(fetch)
        if _is_answered(fetch, is_ready=is_ready):
            for read in fetch.reads:
                for wrong in self._looked(read):
                    self._tell_of(read, wrong)
        return is_ready

    def _finishes(self, real: Real, fetch: FetchOperation) -> None:
        if not (fetch._loads_open or fetch.is_done):  # noqa: SLF001  it is answered now
            for read in fetch.reads:
                for wrong in self._fetched(read) if read.size else ():
                    self._tell_of(read, wrong)
        real(fetch)

    def _parks(
        self, real: Real, pending: PendingProduce, members: list[ReplicaSetMember], acks: int
    ) -> None:
        if acks == ACKS_ALL:
            self._waiting_for_all[id(pending)] = pending
        real(pending, members, acks)

    def _sends(self, real: Real, pending: PendingProduce) -> None:
        self._produced(pending)
        real(pending)

    def _made(self, real: Real, made: Dispatcher, front: KafkaFront) -> None:
        front.apis = {key: self._heard_api(api) for key, api in front.apis.items()}
        real(made, front)

    def _tell_of(self, read: PartitionRead, wrong: str) -> None:
        if read.hosted is not None:
            self._tell(read.hosted.member, read.hosted.partition, wrong)

    def _heard_api(self, api: Any) -> Any:
        judges = {
            ApiKey.LIST_OFFSETS: self._listed,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: self._epochs_told,
        }
        judge = judges.get(api.key)
        if judge is None:
            return api
        handle = api.handle

        def heard(context: RequestContext, request: Any, reply: Any) -> None:
            def told(fields: Mapping[str, Any]) -> None:
                judge(context.broker, request.body, fields)

            handle(context, request, _HeardReply(reply, told))

        return api._replace(handle=heard)


def _is_answered(fetch: FetchOperation, *, is_ready: bool) -> bool:
    """Whether a look answers the fetch.

    One that has to ask the disk for a high watermark does not, even after the client's time to
    wait: it reads anew then, and nothing that this look has found is told.
    """
    return not fetch._cold and (is_ready or fetch._is_over)  # noqa: SLF001


def _is_without_batch(
    hosted: HostedPartition, ends: Ends, end: EpochEnd, told: tuple[int, int]
) -> bool:
    """Whether an older mastership is told, since that of `end` has no batch in the extents.

    Extents do not know of masterships without a batch, and nobody has read in one.
    """
    if hosted.log.commit_log_start_offset < end.end_offset:
        return False
    key = hosted.log.topic_partition.partition, bytes(hosted.log.topic_partition.topic_id)
    written = ends.written_epoch(key, end)
    return written is not None and tuple(told) == (written, end.end_offset)


class _HeardReply:
    """A reply whose answer is looked at before it leaves."""

    def __init__(self, reply: Any, told: Callable[[Mapping[str, Any]], None]) -> None:
        self._reply = reply
        self._told = told

    def __call__(self, fields: Mapping[str, Any]) -> None:
        self._told(fields)
        self._reply(fields)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reply, name)
