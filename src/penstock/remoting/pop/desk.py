"""What pops of one node have in common, whatever protocol their clients speak.

    sending     messages on their way into batches
    pops        how many wait, and what became of messages
    letters     messages that were popped too often
    may_begin   whether groups may begin in queues, as their coordinators say

Both fronts of RocketMQ's clients have the same desk: a group may pop by both, and the coordinator
of shares has one place to which it gives what is given up. It deliberately knows no request and no
answer.

Source: ours, docs/adr/0144.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from penstock.broker.fetch.consumer import Room
from penstock.remoting.excerpts import Excerpts
from penstock.remoting.pop.letters import PopLetters
from penstock.remoting.pop.pops import Pops

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.coordinator.calls.asking import Caller
    from penstock.remoting.later.places import Places
    from penstock.remoting.pop.may_begin import MayBegin
    from penstock.remoting.sending import Sending

Spawn = Callable[[str, Coroutine[Any, Any, None]], None]


class Popper(Room, Protocol):
    """Who pops: a connection, or a call on one. It has memory for what is read."""

    client_host: str

    def has_gone(self) -> bool:
        """Whether nobody waits for the answer any more."""

    def abort(self) -> None:
        """End the connection now."""


class PopDesk:
    """See the module; one for each node that has a port for RocketMQ's clients."""

    def __init__(
        self, broker: Broker, spawn: Spawn, calls: Caller, places: Places, sending: Sending
    ) -> None:
        """`spawn(name, coroutine)` runs the work for a request under supervision."""
        self.broker = broker
        self.spawn = spawn
        self.calls = calls
        self.sending = sending
        self.pops = Pops()
        self.turns = broker.stats.turns_of("remoting", "HAND_OUT")
        """Of pops and receives, once there is something to be handed out."""
        self.excerpts = Excerpts(broker)
        self.letters = PopLetters(
            broker, spawn, places, sending, pops=self.pops, excerpts=self.excerpts
        )
        self.ensure_groups: Callable[[], Awaitable[object]] = _nothing
        """Creates what keeps positions of groups, where it is missing."""
        self.may_begin: MayBegin
        """Set by the node: whether shares of groups may begin, as their coordinators say."""


async def _nothing() -> None:
    """Nothing keeps positions apart from the broker."""
