"""Replication links that corrupt messages, as a broken network card or a faulty process would.

    run of a log      one bit flipped, or the previous run repeated
    acknowledgement   of more than was sent

TCP's checksum misses some corruption, and links without TLS have no other. A receiver must detect
it, close the link and reconnect, so that no wrong byte gets into a log. Errors that no receiver can
detect are not injected: a confirm position that is too high, a lost run.

Source: Stone and Partridge, "When The CRC and TCP Checksum Disagree" (SIGCOMM 2000).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from penstock.base.ids import Position
from penstock.replication.messages import Acknowledge, HaMessage, LogRun
from penstock.runtime.ha.live_link import LiveLink
from simulator.kernel.process import current_process

SHARE = 0.15
AGAIN_SHARE = 0.3
BEYOND_BYTES = 1 << 20


class GarbledLinks:
    """Which hosts send garbled messages now."""

    def __init__(self, draw: Random) -> None:
        self.hosts: list[str] = []
        """A host stands here once for each fault that wants it."""
        self.changed = 0
        """Messages that did not leave as they were said."""
        self._random = draw
        self._last: dict[tuple[int, int], LogRun] = {}
        """(link, set) -> the run sent before."""

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Carry messages of all replication links for as long as this lasts."""
        send = LiveLink.send

        def carry(link: LiveLink, message: HaMessage) -> None:
            host = current_process().host
            messages = self._garbled(link, message) if host in self.hosts else (message,)
            for one in messages:
                send(link, one)

        LiveLink.send = carry  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            LiveLink.send = send  # type: ignore[method-assign]

    def _garbled(self, link: LiveLink, message: HaMessage) -> tuple[HaMessage, ...]:
        if isinstance(message, LogRun) and message.data:
            key = (id(link), message.replica_set_id)
            before = self._last.get(key)
            self._last[key] = message._replace(data=bytes(message.data))
            return self._garbled_run(message, before)
        if isinstance(message, Acknowledge) and self._random.random() < SHARE:
            self.changed += 1
            return (message._replace(position=Position(message.position + BEYOND_BYTES)),)
        return (message,)

    def _garbled_run(self, run: LogRun, before: LogRun | None) -> tuple[HaMessage, ...]:
        if self._random.random() >= SHARE:
            return (run,)
        self.changed += 1
        if self._random.random() < AGAIN_SHARE and before is not None:
            return (run, before)
        data = bytearray(run.data)
        data[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)
        return (run._replace(data=bytes(data)),)
