"""Takes over what another member's cleaning has left of a partition, where it is damaged here.

    a member in step ─► its extents, from where they begin here up to where both have cleaned
      ─► one range, written anew ─► taken over as a pass of the cleaner is

One member is asked for all of it: what a second one has left does not fit it. If that one ends,
cleans again, or is damaged too, the next is asked for all of it.

Source: docs/adr/0114. Who decides that it is needed: extent_repairs.py.
"""

from collections.abc import Callable, Sequence

from penstock.base.errors import PlatformError
from penstock.base.ids import BrokerId, TopicPartition
from penstock.broker.sets.outcome import outcome
from penstock.coordinator.calls.asking import Caller, CallError
from penstock.coordinator.calls.extents import BatchesCode, ExtentRequest, ExtentResponse
from penstock.replica.replica_set import ReplicaSetMember
from penstock.storage.errors import BadBatches, LogBusy
from penstock.storage.second_level.damage import RangeRepair
from penstock.storage.second_level.pieces import Marks
from penstock.storage.second_level.range_rebuild import ExtentPiece
from penstock.storage.second_level.split import Identity

ANSWER_MS = 10_000
"""A piece is read from a disk that may be busy."""


class NobodyHasIt(PlatformError):
    """No other member of the set gives what is damaged here."""


class RangeRepairs:
    """Repairs ranges of one node, one at a time."""

    def __init__(self, calls: Caller, new_name: Callable[[ReplicaSetMember], str]) -> None:
        """`new_name(member)` is an unfinished file of its log."""
        self._calls = calls
        self._new_name = new_name

    async def repair(
        self,
        member: ReplicaSetMember,
        key: TopicPartition,
        end_offset: int,
        peers: Sequence[BrokerId],
        identity: Identity,
    ) -> int:
        """Take a partition's range below `end_offset`, or more, from one of the peers.

        Returns the bytes that came. Raises NobodyHasIt, and what taking a file over raises.
        """
        said: list[str] = []
        for broker_id in peers:
            try:
                return await self._repair_from(broker_id, member, key, end_offset, identity)
            except (CallError, BadBatches) as error:
                said.append(f"broker {broker_id}: {error}")
        where = f"offsets below {end_offset} of partition {key.partition}"
        told = "; ".join(said) or "there is no other member in step"
        raise NobodyHasIt(f"{where} of topic {key.topic_id.hex()}: {told}")

    async def _repair_from(
        self,
        broker_id: BrokerId,
        member: ReplicaSetMember,
        key: TopicPartition,
        end_offset: int,
        identity: Identity,
    ) -> int:
        name = self._new_name(member)
        splitting = member.log.splitting
        repair = splitting.damage.repair_range(key, end_offset, name, identity)
        if repair is None:
            return 0
        try:
            is_more = True
            while is_more:
                piece = await self._ask(broker_id, member, key, repair)
                if member.log.splitting is not splitting or member.log.is_busy:
                    raise LogBusy(member.log.directory)
                is_more = await _taken(repair, piece)
            await outcome(lambda done: splitting.take_over(name, lambda e: done(None, e)))
        except PlatformError:
            repair.abandon()
            member.log.splitting.discard(name)
            raise
        return repair.fetched_bytes

    async def _ask(
        self,
        broker_id: BrokerId,
        member: ReplicaSetMember,
        key: TopicPartition,
        repair: RangeRepair,
    ) -> ExtentPiece:
        """Return the next piece of another member. Raises CallError, BadBatches."""
        offset, skip = repair.next
        answer = await self._calls.ask(
            broker_id,
            ExtentRequest(
                replica_set_id=member.replica_set_id,
                leader_epoch=member.leader_epoch,
                topic_id=key.topic_id,
                partition=key.partition,
                offset=offset,
                skip=skip,
            ),
            timeout_ms=ANSWER_MS,
        )
        return _piece_of(answer, offset)


def _piece_of(answer: ExtentResponse, offset: int) -> ExtentPiece:
    if answer.code == BatchesCode.UNREADABLE:
        raise BadBatches("it can not read them either")
    if answer.code != BatchesCode.OK:
        raise BadBatches(f"no extent has offset {offset} there, or not yet")
    return ExtentPiece(
        answer.entry,
        answer.first_offset,
        answer.end_offset,
        Marks(answer.rewritten_end, answer.fingerprint),
        answer.piece,
    )


async def _taken(repair: RangeRepair, piece: ExtentPiece) -> bool:
    is_more: bool = await outcome(lambda done: repair.take(piece, done))
    return is_more
