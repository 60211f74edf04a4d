"""Keeps the transport dialling the voters of the newest configuration.

Source: raft/raft.py (`peers_to_dial`). It decides nothing about links that others have dialled.
"""

from collections.abc import Callable

from penstock.base.ids import PeerId
from penstock.raft.configuration import Peers
from penstock.raft.raft import Raft
from penstock.runtime.raft.transport import Address, RaftTransport


class Dialling:
    """See the module."""

    def __init__(
        self, core: Raft, transport: RaftTransport, address_of: Callable[[PeerId, str], Address]
    ) -> None:
        """`address_of(peer id, text)` returns where a voter is dialled; port 0: nowhere."""
        self._core = core
        self._transport = transport
        self._address_of = address_of
        self._dialled: Peers = ()

    def update(self) -> None:
        """Dial the current voters if they have changed."""
        wanted = self._core.peers_to_dial
        if wanted != self._dialled:
            self._dialled = wanted
            places = {peer: self._address_of(peer, text) for peer, text in wanted}
            self._transport.set_peers({peer: place for peer, place in places.items() if place[1]})
