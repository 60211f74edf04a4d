"""In-memory TCP between named hosts, with everything that goes wrong in a network.

Each directed pair of hosts has a `Link`: latency, loss (a lost segment is sent again, so loss is
delay, and what follows waits behind it), cut. Different connections overtake each other, one
connection never overtakes itself.

Deliberately not here: UDP, TLS, bandwidth.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Link:
    """What happens to packets from one host to another."""

    latency_s: tuple[float, float] = (0.000_1, 0.001)
    """Least and most one-way time; drawn for each segment."""
    loss: float = 0.0
    """Share of segments that must be sent again, 0 to less than 1."""
    is_cut: bool = False
    """Nothing passes; connections live on until TCP gives up."""
    is_refusing: bool = False
    """New connections are refused at once, as a firewall's reject does."""


class Network:
    """The network of one run; `links` between hosts, faults, connections."""

    def __init__(self) -> None:
        self.default_link = Link()
        """Copied for each pair of hosts as it is first used; change it before."""
        self._links: dict[tuple[str, str], Link] = {}

    def link(self, source: str, target: str) -> Link:
        """Return the link from one host to another, to be changed at will."""
        raise NotImplementedError

    def cut(self, source: str, target: str, *, both_ways: bool = True) -> None:
        """Let nothing pass from `source` to `target`, by default nor back."""
        raise NotImplementedError

    def partition(self, *groups: Iterable[str]) -> None:
        """Cut every pair of hosts of different groups, both ways."""
        raise NotImplementedError

    def heal(self) -> None:
        """Make all links whole: no cuts, no loss, no refusals, usual latency."""
        raise NotImplementedError

    def set_links(
        self,
        hosts: Iterable[str],
        others: Iterable[str],
        *,
        latency_s: tuple[float, float] | None = None,
        loss: float | None = None,
    ) -> None:
        """Change all links between two groups of hosts, both ways."""
        raise NotImplementedError

    def reset(self, source: str, target: str, share: float = 1.0) -> int:
        """Reset open connections between two hosts, each with that probability; returns how many.

        Both ends get ConnectionResetError.
        """
        raise NotImplementedError

    def connections(self, source: str = "", target: str = "") -> int:
        """Count open connections, of all hosts or between two."""
        raise NotImplementedError
