"""Which shares may begin here: what the coordinators of their groups have said.

    of(key) ─► said already ─► may begin | refused
            └► being asked: one question at a time for a group ─► said ─► who waits is woken

A share that its group does not know of is one that no deletion of the group would find (ADR 0105).
So the master asks before a share begins: once for a share, in the background, many in a question.

    refused         for a second; then it is asked again
    may begin       until it is taken, by the share that begins
    no answer       asked again while somebody waits, with a pause
    void            the group's coordinator has the share deleted: what was asked before counts no
                    more, whatever comes of it

What was said holds for one mastership: a deletion during another one is not heard of here.

Source: KIP-932 (InitializeShareGroupState comes from the coordinator of the group); ours asks the
other way round.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from penstock.base.ids import BrokerId, LeaderEpoch
from penstock.broker.broker import Broker
from penstock.controller.metadata.image import NO_MASTER
from penstock.coordinator.calls.asking import Caller, CallError
from penstock.coordinator.calls.shares import ShareBeginRequest, SharePlace
from penstock.coordinator.partitioning import partition_of
from penstock.groups.partitioning import INTERNAL_TOPIC
from penstock.kafka.gate import find_topic
from penstock.protocol.error_codes import ErrorCode, known_code
from penstock.shares.state import ShareKey

TOGETHER = 500
"""Shares of one question: a short turn on either side."""
ANSWER_MS = 5_000
ASKED_MS = 30_000
"""After so long a question that was not answered is asked once more, whatever has become of it."""
REFUSED_MS = 1_000
"""A member that joins is known before it hears so; who is refused is not one, or is too late."""
PAUSE_S = 0.25
"""Before a coordinator that has not answered is asked again for a group."""
KEPT_MAX = 20_000
"""Shares that are asked for, and as many of which an answer is kept: 10 MiB. The oldest answers
make room, and are asked for again."""
_REFUSALS = frozenset(
    {
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_GROUP_ID,
    }
)

Spawn = Callable[[str, Coroutine[Any, Any, None]], object]


class _Said:
    """What is known of one share; `code` is None while its coordinator is asked."""

    __slots__ = ("code", "leader_epoch", "until_ms")

    def __init__(self, leader_epoch: LeaderEpoch, until_ms: int) -> None:
        self.leader_epoch = leader_epoch
        self.code: ErrorCode | None = None
        self.until_ms = until_ms


class ShareAdmissions:
    """The MayBegin of one broker, for the shares of the data that it leads."""

    __slots__ = ("_asked", "_broker", "_calls", "_queues", "_said", "_spawn")

    def __init__(self, broker: Broker, calls: Caller, spawn: Spawn) -> None:
        self._broker = broker
        self._calls = calls
        self._spawn = spawn
        self._said: dict[ShareKey, _Said] = {}
        self._queues: dict[str, dict[ShareKey, _Said]] = {}
        """Not asked yet, by group; each group has a task."""
        self._asked = 0
        """In all queues."""

    def of(self, key: ShareKey, leader_epoch: LeaderEpoch) -> ErrorCode | None:
        """As in MayBegin."""
        said = self._said.get(key)
        now_ms = self._broker.clock.monotonic_ms()
        if said is None or said.leader_epoch != leader_epoch or said.until_ms <= now_ms:
            self._ask(key, _Said(leader_epoch, now_ms + ASKED_MS))
            return None
        return said.code

    def take(self, key: ShareKey, leader_epoch: LeaderEpoch) -> bool:
        """As in MayBegin."""
        said = self._said.get(key)
        if said is None or said.leader_epoch != leader_epoch or said.code is not ErrorCode.NONE:
            return False
        del self._said[key]
        return True

    def void(self, key: ShareKey) -> None:
        """Forget what was said of a share, and do not heed what is still to be said of it."""
        self._said.pop(key, None)

    def _ask(self, key: ShareKey, said: _Said) -> None:
        queue = self._queues.get(key.group)
        if self._asked >= KEPT_MAX and (queue is None or key not in queue):
            return  # who waits does so in vain, and asks again
        self._said.pop(key, None)
        if len(self._said) >= KEPT_MAX:
            self._said.pop(next(iter(self._said)))
        self._said[key] = said
        if queue is None:
            queue = self._queues[key.group] = {}
            self._spawn("share admission", self._run(key.group, queue))
        self._asked += key not in queue
        queue[key] = said

    async def _run(self, group: str, queue: dict[ShareKey, _Said]) -> None:
        """Ask for a group until nothing is queued."""
        try:
            while queue:
                asked = dict(islice(queue.items(), TOGETHER))
                for key in asked:
                    del queue[key]
                self._asked -= len(asked)
                codes = await self._codes(group, [*asked])
                unanswered = self._note(asked, codes)
                self._wake(key for key in asked if key in self._said)
                if unanswered:
                    await asyncio.sleep(PAUSE_S)
                self._wake(key for key in asked if key not in self._said)
        finally:
            self._asked -= len(queue)
            del self._queues[group]

    def _wake(self, keys: Iterable[ShareKey]) -> None:
        for key in keys:
            self._broker.shares.watchers.tell(key)

    def _note(self, asked: Mapping[ShareKey, _Said], codes: Sequence[ErrorCode]) -> list[ShareKey]:
        """Keep what was answered; return of what it was not."""
        now_ms, unanswered = self._broker.clock.monotonic_ms(), list[ShareKey]()
        for (key, said), code in zip(asked.items(), codes, strict=True):
            if self._said.get(key) is not said:
                continue  # void: the deletion may have come after the answer
            if code is ErrorCode.NONE:
                said.code = code
            elif code in _REFUSALS:
                # One code for all: that of a group is fatal to Java's members.
                said.code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                said.until_ms = now_ms + REFUSED_MS
            else:
                del self._said[key]
                unanswered.append(key)
        return unanswered

    async def _codes(self, group: str, keys: Sequence[ShareKey]) -> Sequence[ErrorCode]:
        coordinator = _coordinator_of(self._broker, group)
        if coordinator is None:
            return [ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(keys)
        places = tuple(SharePlace(key.topic_id, key.partition) for key in keys)
        question = ShareBeginRequest(group=group, places=places)
        try:
            answer = await self._calls.ask(coordinator, question, timeout_ms=ANSWER_MS)
        except CallError:
            return [ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(keys)
        return [*map(known_code, answer.codes)]


def _coordinator_of(broker: Broker, group: str) -> BrokerId | None:
    """Return the broker that coordinates a group; None while there is none."""
    topic = find_topic(broker, INTERNAL_TOPIC)
    if topic is None:
        return None
    placed = topic.partitions[partition_of(group, len(topic.partitions))]
    found = broker.metadata.replica_sets.get(placed.replica_set_id)
    return None if found is None or found.master == NO_MASTER else found.master
