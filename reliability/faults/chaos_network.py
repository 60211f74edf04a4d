"""Faults of the network between hosts: cuts of many shapes, loss, delay, resets.

Every shape is a set of directed links, so a one-way cut is one too. Links to clients stay whole:
they see both sides, as those of the published scenarios do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from reliability.faults.chaos_stage import Stage, name_of_host
from reliability.faults.hosts import Hosts

LOSS = 0.8
DELAY_SECONDS = (0.050, 0.400)
Links = Sequence[tuple[int, int]]


@dataclass(slots=True)
class Broken:
    """Links that lose or hold up frames until they are mended."""

    stage: Stage
    victims: str
    links: Links
    rule: dict[str, float]
    _struck: int = 0

    def begin(self) -> None:
        _hosts(self.stage).set_rules(dict.fromkeys(self.links, self.rule))

    def has_struck(self) -> bool:
        self._struck += _hosts(self.stage).struck()
        return self._struck > 0

    def heal(self) -> None:
        _hosts(self.stage).set_rules({})


@dataclass(slots=True)
class Reset:
    """TCP connections of hosts that are reset, all at once."""

    stage: Stage
    hit: tuple[int, ...]
    _reset: int = field(default=0)

    @property
    def victims(self) -> str:
        return f"{self._reset} connections of {self.hit} reset"

    def begin(self) -> None:
        hosts = _hosts(self.stage)
        self._reset = sum(hosts.reset_connections(name_of_host(peer_id)) for peer_id in self.hit)

    def has_struck(self) -> bool:
        return self._reset > 0

    def heal(self) -> None:
        """Leave it: whoever was connected connects again."""


def loss(stage: Stage, ids: Sequence[int], others: Sequence[int]) -> Broken:
    """Lose 80 % of the frames between two groups, which may be the same."""
    text = f"{LOSS:.0%} loss between {_text(ids)} and {_text(others)}"
    return Broken(stage, text, _links(stage, ids, others), {"loss": LOSS})


def delay(stage: Stage, ids: Sequence[int]) -> Broken:
    """Hold every frame between hosts up, by as much as the dice say, and up to a half more."""
    seconds = stage.chooser.uniform(*DELAY_SECONDS)
    rule = {"delay": seconds, "jitter": min(seconds / 2, DELAY_SECONDS[1] - seconds)}
    text = f"{seconds * 1000:.0f} ms each way between {_text(ids)}"
    return Broken(stage, text, _links(stage, ids, ids), rule)


def partition(stage: Stage, ids: Sequence[int]) -> Broken:
    """Cut hosts into two groups at random, neither of them empty."""
    mixed = stage.chooser.sample(list(ids), len(ids))
    at = stage.chooser.randrange(1, len(mixed))
    left, right = sorted(mixed[:at]), sorted(mixed[at:])
    return _cut(stage, f"{_text(left)} | {_text(right)}", _links(stage, left, right))


def bridge(stage: Stage, ids: Sequence[int]) -> Broken:
    """Cut hosts into two halves, but for one that sees both."""
    middle, *rest = stage.chooser.sample(list(ids), len(ids))
    at = len(rest) // 2
    left, right = sorted(rest[:at]), sorted(rest[at:])
    return _cut(stage, f"{_text(left)} | {middle} | {_text(right)}", _links(stage, left, right))


def ring(stage: Stage, ids: Sequence[int]) -> Broken:
    """Let every host hear a majority, and no two the same one: its neighbours in a random ring.

    What a host does not hear is cut in that direction only, as Jepsen does it.
    """
    mixed = stage.chooser.sample(list(ids), len(ids))
    count = len(mixed)
    size = count // 2 + 1
    cut = []
    for begin in range(count):
        heard = {mixed[(begin + step) % count] for step in range(size)}
        hearer = mixed[(begin + size // 2) % count]
        cut += [_link(stage, other, hearer) for other in mixed if other not in heard]
    return _cut(stage, f"ring {_text(mixed)}", cut)


def one_way(stage: Stage, ids: Sequence[int]) -> Broken:
    """Cut all that one host sends to others, or all that they send to it."""
    hit = stage.one(ids)
    others = [other for other in ids if other != hit]
    is_out = stage.chooser.random() < 0.5
    links = [_link(stage, *((hit, other) if is_out else (other, hit))) for other in others]
    return _cut(stage, f"nothing {'from' if is_out else 'to'} {hit}", links)


def reset(stage: Stage, ids: Sequence[int]) -> Reset:
    """Reset the connections of one host, or of all."""
    is_all = stage.chooser.random() < 0.3
    return Reset(stage, tuple(ids) if is_all else (stage.one(ids),))


def _cut(stage: Stage, text: str, links: Links) -> Broken:
    return Broken(stage, f"cut {text}", links, {"loss": 1.0})


def _link(stage: Stage, source: int, target: int) -> tuple[int, int]:
    port_of = _hosts(stage).port_of
    return port_of[name_of_host(source)], port_of[name_of_host(target)]


def _links(stage: Stage, ids: Sequence[int], others: Sequence[int]) -> Links:
    both = [(a, b) for a in ids for b in others if a != b]
    return sorted({_link(stage, *pair) for a, b in both for pair in ((a, b), (b, a))})


def _hosts(stage: Stage) -> Hosts:
    assert stage.hosts is not None, "this kind of fault needs hosts of their own"
    return stage.hosts


def _text(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids))
