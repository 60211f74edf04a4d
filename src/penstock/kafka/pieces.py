"""A long request in pieces, each a request of its own that the handler knows, and their answer.

A handler module says by which arrays its requests can be cut: SLICED_BY = (("topics",
"partitions"),). An array in another one is cut, too: a topic with many partitions is then named in
several pieces. The answers' arrays are joined, and what was named by two pieces becomes one again.

Where elements differ much in what they cost, WEIGH of the module says how many plain ones one is.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

PIECE = 50
"""Elements of the innermost array in one piece; a plain one takes up to 200 us, all told."""

CONFIGS_WEIGHED = 16
CONFIG_BYTES_WEIGHED = 2_500
"""What weighs one element: so many settings, or so many bytes of them. A setting takes 12 us to
judge and to read again from the metadata log, a list of 32 kB up to 3 ms."""
CONFIGS_LOOKED_AT = 200

Path = tuple[str, ...]
Weigh = Callable[[Any], int]


def path_of(body: Any, paths: Sequence[Path]) -> Path:
    """Return the arrays by which this version of a request can be cut; none if it can not."""
    for path in paths:
        if getattr(body, path[0], None):
            return path
    return ()


def plain(_item: Any) -> int:
    """Weigh an element that is like all others."""
    return 1


def config_weight(configs: Sequence[Any]) -> int:
    """Return what settings (`name`, `value`) weigh that an element brings with it."""
    looked_at = islice(configs, CONFIGS_LOOKED_AT)
    size = sum(len(one.name) + len(one.value or "") for one in looked_at)
    return len(configs) // CONFIGS_WEIGHED + size // CONFIG_BYTES_WEIGHED


def pieces(body: Any, path: Path, size: int = PIECE, weigh: Weigh = plain) -> Iterator[Any]:
    """Yield the request, or an entity in it, cut into parts of at most `size` elements.

    An element that weighs more is a part of its own.
    """
    if not path or not getattr(body, path[0]):
        yield body
        return
    name, rest = path[0], path[1:]
    taken: list[Any] = []
    weight = 0
    for item in getattr(body, name):
        for part in pieces(item, rest, size, weigh):
            more = _weight(part, rest, weigh)
            if taken and weight + more > size:
                yield dataclasses.replace(body, **{name: tuple(taken)})
                taken, weight = [], 0
            taken.append(part)
            weight += more
    yield dataclasses.replace(body, **{name: tuple(taken)})


def _weight(item: Any, path: Path, weigh: Weigh) -> int:
    if not path:
        return weigh(item)
    return max(1, sum(_weight(one, path[1:], weigh) for one in getattr(item, path[0]) or ()))


class Joined:
    """The answers to the pieces, as one. An only answer stays as it is, however long."""

    __slots__ = ("_joined", "_only")

    def __init__(self) -> None:
        self._only: Mapping[str, Any] | None = None
        self._joined: dict[str, Any] = {}

    @property
    def fields(self) -> Mapping[str, Any]:
        """What the pieces so far say together."""
        return self._joined if self._only is None else self._only

    def add(self, fields: Mapping[str, Any]) -> None:
        """Take the next answer; its cost does not grow with what is there already."""
        if self._only is None and not self._joined:
            self._only = fields
            return
        if self._only is not None:
            only, self._only = self._only, None
            join(self._joined, only)
        join(self._joined, fields)


def join(whole: dict[str, Any], part: Mapping[str, Any]) -> None:
    """Put what `part` says behind what `whole` says; of errors the first that is one stays."""
    for name, value in part.items():
        if not isinstance(value, list | tuple):
            whole[name] = whole.get(name) or value
            continue
        items = whole.setdefault(name, [])
        is_continued = bool(items and value) and _is_continued(items[-1], value[0])
        if is_continued:
            join(items[-1], value[0])
        items.extend(_own(one) for one in value[is_continued:])


def _own(item: Any) -> Any:
    """Return an entity that may be added to."""
    if not isinstance(item, Mapping):
        return item
    return {name: list(v) if isinstance(v, list | tuple) else v for name, v in item.items()}


def _is_continued(last: Any, first: Any) -> bool:
    """Whether two entities are halves of one: they have arrays, and all else is the same."""
    if not isinstance(last, Mapping) or not isinstance(first, Mapping):
        return False
    is_array = {name: isinstance(value, list | tuple) for name, value in first.items()}
    same = all(last.get(name) == first[name] for name, array in is_array.items() if not array)
    return same and any(is_array.values())
