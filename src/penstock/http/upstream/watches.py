"""Waiting for messages without taking any: one question to each master, for all who wait.

    receive ─┐
    receive ─┼─► watch of (topic, group, broker) ─► NOTIFICATION ─► there is some
    stream  ─┘                                                 └─► or its time is over

Messages are handed out by a pop that does not wait, once a watch has fired and the client is
still there. So nothing is handed out to a client that has gone, and what waits at nodes does not
grow with the clients here. A watch that nobody waits for ends within WAIT_MS.

Source: RocketMQ 5.3.3 `NotificationProcessor`; ours, docs/adr/0167.
"""

import asyncio
from typing import Final

from penstock.http.upstream.errors import UpstreamError
from penstock.http.upstream.nodes import Asked, Nodes, checked
from penstock.remoting.wire.codes import RequestCode

WAIT_MS: Final = 10_000
ANSWER_S: Final = 5.0
"""Beyond the wait."""
WATCHES_MAX: Final = 500
"""Of one identity; half of what may wait for a node on its connection."""
FULL_PAUSE_S: Final = 1.0
Key = tuple[str, str, str]


class Watches:
    """See the module; one for each identity."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._tasks: dict[Key, asyncio.Task[bool]] = {}

    @property
    def is_full(self) -> bool:
        """Whether no more can be watched."""
        return len(self._tasks) >= WATCHES_MAX

    def watch(self, topic: str, group: str, broker: str, begin: str) -> asyncio.Task[bool]:
        """Return a task that tells whether there may be messages; it never fails."""
        key = topic, group, broker
        task = self._tasks.get(key)
        if task is None:
            task = asyncio.create_task(self._ask(topic, group, broker, begin))
            self._tasks[key] = task
            task.add_done_callback(lambda _: self._tasks.pop(key, None))
        return task

    async def _ask(self, topic: str, group: str, broker: str, begin: str) -> bool:
        fields = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": "-1",
            "pollTime": str(WAIT_MS),
            "bornTime": "0",
            "initMode": begin,
            "order": "false",
            "bname": broker,
        }
        asked = Asked(RequestCode.NOTIFICATION, fields, timeout_s=WAIT_MS / 1000 + ANSWER_S)
        try:
            answer = checked(await self._nodes.ask(topic, broker, asked))
        except UpstreamError:
            return True  # a pop says what is wrong
        if answer.fields.get("pollingFull") == "true":
            await asyncio.sleep(FULL_PAUSE_S)
        return answer.fields.get("hasMsg") == "true"

    def close(self) -> None:
        """End all questions."""
        for task in list(self._tasks.values()):
            task.cancel()
