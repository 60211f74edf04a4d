"""The client instances of a node, and when each may ask and push.

    get     once an interval; at once after an error that tells a client to ask
    push    once an interval, or once after a get; the last one at any time, and none after it

An instance that is forgotten is made anew with its next request: all that it loses is when it was
here. One is forgotten after three intervals without a request, a minute at least, or as the one
that was not used for the longest time when there are INSTANCES_MAX.

Source: Kafka `ClientMetricsManager`, `ClientMetricsInstance`. Departs from it in two points. A get
that is permitted after an error counts as one, so that the push which follows is permitted as well.
An instance outlives its connection, so that it gains nothing by another one.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from penstock.telemetry.errors import (
    EarlyRequest,
    InstanceEnded,
    InvalidInstance,
    UnknownSubscription,
)
from penstock.telemetry.subscriptions import Asked, Subscriptions

INSTANCES_MAX: Final = 16_384
INSTANCE_BYTES: Final = 1_000
"""What one takes of memory, approximately."""
IDLE_MS_MIN: Final = 60_000
IDLE_INTERVALS: Final = 3
LOOKED_AT: Final = 256
"""Instances that a tick looks at."""
RESERVED_IDS: Final = frozenset({UUID(int=0), UUID(int=1)})
"""Kafka's zero and one: no client has them."""
_NEVER: Final = -(1 << 62)


@dataclass(slots=True)
class Instance:
    """One client instance; times are of a monotonic clock, in ms."""

    asked: Asked
    subscriptions: Subscriptions
    """Those that `asked` is of."""
    got_ms: int = _NEVER
    pushed_ms: int = _NEVER
    used_ms: int = 0
    may_push: bool = False
    """Whether it has asked since its last push. A flag, as both may be in one millisecond."""
    has_ended: bool = False
    may_ask: bool = False
    """Whether an error has told it to ask, before the interval is over, and nothing was taken
    since."""

    def get(self, now_ms: int) -> None:
        """Note that it asks. Raises EarlyRequest."""
        is_due = now_ms - max(self.got_ms, self.pushed_ms) >= self.asked.interval_ms
        if not (is_due or self.may_ask):
            raise EarlyRequest(self.asked.interval_ms)
        self.may_ask = False
        self.may_push = True
        self.got_ms = now_ms

    def push(self, now_ms: int, subscription_id: int, *, is_last: bool) -> None:
        """Note that it pushes. Raises InstanceEnded, EarlyRequest, UnknownSubscription."""
        if self.has_ended:
            raise InstanceEnded
        self.has_ended = is_last
        is_due = self.may_push or now_ms - self.pushed_ms >= self.asked.interval_ms
        if is_due:
            self.may_push = False
            self.pushed_ms = now_ms
        elif not is_last:
            raise EarlyRequest(self.asked.interval_ms)
        self.may_ask = is_other = subscription_id != self.asked.subscription_id
        if is_other:
            raise UnknownSubscription

    def is_idle(self, now_ms: int) -> bool:
        """Whether it has not been here for so long that it is forgotten."""
        return now_ms - self.used_ms >= max(IDLE_MS_MIN, IDLE_INTERVALS * self.asked.interval_ms)


class Instances:
    """See the module; one for each node."""

    def __init__(self, new_id: Callable[[], UUID]) -> None:
        """`new_id` draws a random id."""
        self._new_id = new_id
        self._by_id: OrderedDict[UUID, Instance] = OrderedDict()
        """The one that was not used for the longest time first."""
        self._next: Iterator[UUID] = iter(())
        self.evicted = 0
        """Forgotten since the start because there were too many."""

    def __len__(self) -> int:
        return len(self._by_id)

    def id_of(self, given: UUID | None) -> UUID:
        """Return the id that a client has given, or a new one."""
        if given is not None and given not in RESERVED_IDS:
            return given
        while (drawn := self._new_id()) in self._by_id:
            pass
        return drawn

    def known(
        self, given: UUID | None, client: Mapping[str, str], now: Subscriptions, now_ms: int
    ) -> Instance:
        """Return the instance of an id, as what is asked for stands `now`.

        Raises InvalidInstance.
        """
        if given is None or given in RESERVED_IDS:
            raise InvalidInstance
        found = self._by_id.get(given)
        if found is None or found.is_idle(now_ms):
            found = self._by_id[given] = Instance(now.asked_of(given, client), now)
            if len(self._by_id) > INSTANCES_MAX:
                self._by_id.popitem(last=False)
                self.evicted += 1
        elif found.subscriptions is not now:
            self._ask_anew(found, given, client, now)
        self._by_id.move_to_end(given)
        found.used_ms = now_ms
        return found

    def _ask_anew(
        self, found: Instance, given: UUID, client: Mapping[str, str], now: Subscriptions
    ) -> None:
        """Take what is asked now; if it is something else, the instance may ask at once."""
        asked = now.asked_of(given, client)
        found.subscriptions = now
        if asked != found.asked:
            found.asked = asked
            found.got_ms = found.pushed_ms = _NEVER

    def expire(self, now_ms: int) -> None:
        """Look at some, one after the other, and forget those that are idle."""
        for _ in range(LOOKED_AT):
            given = next(self._next, None)
            if given is None:
                self._next = iter(list(self._by_id))
                return
            one = self._by_id.get(given)
            if one is not None and one.is_idle(now_ms):
                del self._by_id[given]
