"""A process of an application: shows that it lives, and takes and gives up the tasks it is told.

    epoch 0, topology ─► given tasks ─► heartbeat ... ─► given less: says so with the next one
        ▲                                  │ fenced, unknown, died, left
        └──────────────────────────────────┘

After a lost connection it says everything, and is told everything. At random it leaves, dies, or
stands still, maybe beyond the end of its session; who has died comes back under its id, or with a
new one. It has a new one, too, after a request without an answer that joins or leaves. The work
itself is not simulated.

Source: KIP-1071; Kafka, StreamsGroupHeartbeatRequestManager.
"""

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.group_wire import GroupLink, Versions, open_coordinator
from simulator.clients.wire import LinkFailed
from simulator.clients.world import ClientWorld, now_ns, pause
from simulator.history.tasks import Beat, Task, TaskNotes
from simulator.run.topology import STREAMS_SESSION_MS

STREAMS: Versions = {
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.STREAMS_GROUP_HEARTBEAT: 0,
    ApiKey.STREAMS_GROUP_DESCRIBE: 0,
}
JOIN, LEAVE = 0, -1
BEAT_SECONDS = (0.15, 0.45)
GONE_SECONDS = (0.1, 1.5)
FROZEN_SECONDS = (0.5, 4.5)
WHIM_SHARE = 0.03
"""Of heartbeats, that are followed by something else than the next one."""
FULL_SHARE = 0.1
PORT = 8_080
_AGAIN = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
_NEVER = (
    ErrorCode.INVALID_REQUEST,
    ErrorCode.STREAMS_INVALID_TOPOLOGY,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


@dataclass(slots=True, kw_only=True)
class StreamsMember:
    """See the module."""

    world: ClientWorld
    group: str
    name: str
    """Of its process."""
    random: Random
    topology: dict[str, Any]
    notes: TaskNotes
    epoch: int = JOIN
    active: frozenset[Task] = frozenset()
    standby: frozenset[Task] = frozenset()
    last_error: str = ""
    _lives: int = 0
    _endpoint_epoch: int = 0
    _is_full: bool = False
    _whims: tuple[str, ...] = field(default=("leave", "die", "die", "freeze"), repr=False)

    @property
    def member_id(self) -> str:
        """Its id in the group."""
        return f"{self.name}-{self._lives}"

    async def run(self) -> None:
        """Take part until the run is over."""
        while not self.world.is_over:
            try:
                link = await open_coordinator(self.world, self.random, self.group, STREAMS)
                try:
                    await self._take_part(link)
                finally:
                    link.close()
            except LinkFailed as error:
                self.last_error = str(error)
            self._is_full = True
            await pause(self.random)

    async def _take_part(self, link: GroupLink) -> None:
        while not self.world.is_over:
            await self._beat(link)
            if self.random.random() < WHIM_SHARE and not self.world.is_stopping:
                await self._follow_a_whim(link)
            await asyncio.sleep(self.random.uniform(*BEAT_SECONDS))

    # --- heartbeats ----------------------------------------------------------------------------

    async def _beat(self, link: GroupLink) -> None:
        """Say what it has, and take what it is told. Raises LinkFailed."""
        is_full = self._is_full or self.random.random() < FULL_SHARE
        asked_ns, says = now_ns(), self.active
        fields = self._fields() | (self._everything() if is_full or self.epoch == JOIN else {})
        try:
            answer = await link.call(ApiKey.STREAMS_GROUP_HEARTBEAT, fields)
        except LinkFailed:
            self.notes.told(Beat(self.member_id, asked_ns, says), ())
            if self.epoch == JOIN:
                self._lives += 1  # the request may count at any later time
            raise
        error = ErrorCode(answer.error_code)
        if error is not ErrorCode.NONE:
            self.notes.told(Beat(self.member_id, asked_ns, says), ())
            self._heed(error, link)
            return
        self._is_full = False
        self.last_error = ", ".join(one.status_detail for one in answer.status or ())
        self._take(answer, Beat(self.member_id, asked_ns, says, now_ns(), told_by=link.host))

    def _fields(self) -> dict[str, Any]:
        return {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            "endpoint_information_epoch": self._endpoint_epoch,
            "active_tasks": _named(self.active),
            "standby_tasks": _named(self.standby),
            "warmup_tasks": [],
            "client_tags": None,
            "task_offsets": None,
            "task_end_offsets": None,
        }

    def _everything(self) -> dict[str, Any]:
        return {
            "rebalance_timeout": STREAMS_SESSION_MS,
            "process_id": self.name,
            "user_endpoint": {"host": self.name, "port": PORT},
            "client_tags": [{"key": "name", "value": self.name}],
            "topology": self.topology if self.epoch == JOIN else None,
        }

    def _take(self, answer: Any, beat: Beat) -> None:
        self.epoch = answer.member_epoch
        self._endpoint_epoch = answer.endpoint_information_epoch
        if answer.active_tasks is not None:
            self.active, self.standby = _tasks(answer.active_tasks), _tasks(answer.standby_tasks)
            beat = beat._replace(given=self.active)
        self.notes.told(beat, self.standby)

    def _heed(self, error: ErrorCode, link: GroupLink) -> None:
        self.last_error = error.name
        if error in _NEVER:
            self.world.refuse(f"{self.name} was told {error.name}", link.host)
        if error not in _AGAIN:
            raise link.link.broken(error.name)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.notes.gone(self.member_id, now_ns())
        self.epoch, self.active, self.standby = JOIN, frozenset(), frozenset()

    # --- whims ---------------------------------------------------------------------------------

    async def _follow_a_whim(self, link: GroupLink) -> None:
        match self.random.choice(self._whims):
            case "leave":
                await self._leave(link)
            case "die":
                self._begin_anew()
                self._lives += self.random.randrange(2)
                await asyncio.sleep(self.random.uniform(*GONE_SECONDS))
            case _:
                await asyncio.sleep(self.random.uniform(*FROZEN_SECONDS))

    async def _leave(self, link: GroupLink) -> None:
        self._begin_anew()
        fields = self._fields() | {"member_epoch": LEAVE}
        self._lives += 1
        await link.call(ApiKey.STREAMS_GROUP_HEARTBEAT, fields)
        await asyncio.sleep(self.random.uniform(*GONE_SECONDS))


def _named(tasks: frozenset[Task]) -> list[dict[str, Any]]:
    """Return tasks as a request names them."""
    by_subtopology: dict[str, list[int]] = {}
    for subtopology, number in sorted(tasks):
        by_subtopology.setdefault(subtopology, []).append(number)
    return [{"subtopology_id": key, "partitions": some} for key, some in by_subtopology.items()]


def _tasks(told: Any) -> frozenset[Task]:
    return frozenset((one.subtopology_id, number) for one in told for number in one.partitions)
