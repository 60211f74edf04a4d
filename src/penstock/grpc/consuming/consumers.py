"""Consumers that this node knows: those whose stream of settings is open, and when each was heard.

    settings ─► known ─► heard: heartbeats, receives, acknowledgements ─► silent, or its stream ends

What a consumer has in its hands is renewed for it only while it is heard (renewing.py): one that
hangs keeps nothing from others for longer than a minute. Java's and Python's say each 10 s that
they are there, to every node of their routes.

Source: RocketMQ's proxy `ClientActivity`, `GrpcClientSettingsManager`, `ConsumerManager`.
"""

from typing import Final, NamedTuple

from penstock.base.errors import PlatformError

CONSUMERS_MAX: Final = 20_000
"""1 KiB each at most, with the names that it has."""
HEARD_MS: Final = 30_000
"""Three heartbeats."""


class TooManyConsumers(PlatformError):
    """No consumer can come before others leave."""


class _Known(NamedTuple):
    group: str
    kind: int
    stream: object
    """The call by which it told its settings; the end of an older one takes nothing away."""


class Consumers:
    """See the module; one for each node. Times are monotonic."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._heard_ms: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def settle(self, client_id: str, group: str, kind: int, stream: object, now_ms: int) -> None:
        """Note a consumer that tells its settings. Raises TooManyConsumers."""
        if client_id not in self._known and len(self._known) >= CONSUMERS_MAX:
            raise TooManyConsumers(f"{CONSUMERS_MAX} consumers are here already")
        self._known[client_id] = _Known(group, kind, stream)
        self._heard_ms[client_id] = now_ms

    def is_known(self, client_id: str, group: str) -> bool:
        """Whether a consumer has told its settings, as a member of this group."""
        known = self._known.get(client_id)
        return known is not None and known.group == group

    def hear(self, client_id: str, now_ms: int) -> None:
        """Note that a consumer is there; of one that is not known nothing is kept."""
        if client_id in self._heard_ms:
            self._heard_ms[client_id] = now_ms

    def is_there(self, client_id: str, now_ms: int) -> bool:
        """Whether a consumer is known and was heard lately."""
        heard_ms = self._heard_ms.get(client_id)
        return heard_ms is not None and now_ms - heard_ms < HEARD_MS

    def leave(self, client_id: str, stream: object) -> None:
        """Forget a consumer whose stream has ended, unless it has a newer one."""
        known = self._known.get(client_id)
        if known is not None and known.stream is stream:
            self.forget(client_id)

    def forget(self, client_id: str) -> None:
        """Forget a consumer that says that it ends."""
        if self._known.pop(client_id, None) is not None:
            del self._heard_ms[client_id]
