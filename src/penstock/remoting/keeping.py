"""What one node takes now and delivers later, whatever protocol its clients speak.

    sending     messages on their way into batches
    places      partitions of the fronts' own topics in the sets of the messages
    holding     messages that are to wait for their time, on their way
    delivery    messages whose time has come
    recalls     which of those that wait are taken back
    halves      half messages of transactions

Both fronts of RocketMQ's clients have the same one, beside the desk for pops (pop/desk.py): a half
message is decided once, by whichever protocol its decision comes. It deliberately knows no request
and no answer.

Source: ours, docs/adr/0151.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from penstock.remoting.halves.halves import Halves
from penstock.remoting.later.delivery import Delivery
from penstock.remoting.later.holding import Holding
from penstock.remoting.later.places import Places
from penstock.remoting.recall.recalls import Recalls
from penstock.remoting.sending import Sending

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

Spawn = Callable[[str, Coroutine[Any, Any, None]], None]


class Keeping:
    """See the module; one for each node that has a port for RocketMQ's clients."""

    def __init__(self, broker: Broker, spawn: Spawn) -> None:
        """`spawn(name, coroutine)` runs work under supervision."""
        self.sending = Sending(broker)
        self.places = Places(broker, spawn)
        self.holding = Holding(broker, self.places, self.sending)
        self.recalls = Recalls(broker, self.places)
        self.delivery = Delivery(broker, self.places, self.recalls)
        self.halves = Halves(broker, self.places, self.sending)
        broker.on_expire.append(self._look)

    @property
    def bytes_now(self) -> int:
        """Approximate memory of what waits."""
        return self.halves.bytes_now + self.recalls.bytes_now

    def _look(self, now_ms: int) -> None:
        del now_ms
        self.delivery.look()
        self.recalls.look(self.delivery.floor_ms)
        self.halves.look()
