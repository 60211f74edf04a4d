"""Overlapping faults of the network: a link has the combined effects of all that are active.

The state of each link is recomputed from all effects whenever one begins or ends.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from simulator.kernel.network import Network

Pair = tuple[str, str]
"""(source host, target host)"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Effect:
    """What one fault does to directed links."""

    pairs: tuple[Pair, ...]
    is_cut: bool = False
    loss: float = 0.0
    latency_s: float = 0.0


class Weather:
    """All effects of one network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._effects: list[Effect] = []

    def add(self, effect: Effect) -> None:
        """Let it take effect."""
        self._effects.append(effect)
        self._apply()

    def remove(self, effect: Effect) -> None:
        """End it; again: no effect."""
        if effect in self._effects:
            self._effects.remove(effect)
            self._apply()

    def clear(self) -> None:
        """End all."""
        self._effects.clear()
        self._apply()

    def _apply(self) -> None:
        network = self._network
        network.heal()
        for effect in self._effects:
            for source, target in effect.pairs:
                link = network.link(source, target)
                link.is_cut = link.is_cut or effect.is_cut
                link.loss = max(link.loss, effect.loss)
                if effect.latency_s > link.latency_s[0]:
                    link.latency_s = (effect.latency_s, 1.5 * effect.latency_s)


def pairs(sources: Iterable[str], targets: Iterable[str], *, both_ways: bool) -> tuple[Pair, ...]:
    """Return the directed pairs from one group of hosts to another, and back."""
    there = [(source, other) for source in sources for other in targets if source != other]
    back = [(other, one) for one, other in there] if both_ways else []
    return tuple(dict.fromkeys(there + back))
