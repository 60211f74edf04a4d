"""Cuts a long request into slices, which are requests for its handler, and joins their answers.

A handler module declares the arrays by which its requests can be cut: SLICED_BY = (("topics",
"partitions"),). Nested arrays are cut too, so that a topic with many partitions is named in several
slices. The arrays of the answers are joined, and an entity in two slices becomes one again.

If elements differ much in cost, WEIGH of the module returns how many plain elements one stands for.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

SLICE_ELEMENTS = 50
"""Elements of the innermost array in one slice; a plain one takes up to 200 us in all."""

CONFIGS_WEIGHED = 16
CONFIG_BYTES_WEIGHED = 2_500
"""Settings, and bytes of them, that count as one element. A setting takes 12 us to check and to
replay from the metadata log, a list of 32 kB up to 3 ms."""
CONFIGS_LOOKED_AT = 200

Path = tuple[str, ...]
Weigh = Callable[[Any], int]


def path_of(body: Any, paths: Sequence[Path]) -> Path:
    """Return the arrays by which this version of a request can be cut; empty if it cannot."""
    for path in paths:
        if getattr(body, path[0], None):
            return path
    return ()


def _plain(_item: Any) -> int:
    return 1


def config_weight(configs: Sequence[Any]) -> int:
    """Return what settings (`name`, `value`) weigh that an element brings with it."""
    looked_at = islice(configs, CONFIGS_LOOKED_AT)
    size = sum(len(one.name) + len(one.value or "") for one in looked_at)
    return len(configs) // CONFIGS_WEIGHED + size // CONFIG_BYTES_WEIGHED


def slices_of(
    body: Any, path: Path, size: int = SLICE_ELEMENTS, weigh: Weigh = _plain
) -> Iterator[Any]:
    """Yield the request, or an entity in it, cut into slices of at most `size` elements.

    An element that weighs more is a slice of its own.
    """
    if not path or not getattr(body, path[0]):
        yield body
        return
    name, rest = path[0], path[1:]
    taken: list[Any] = []
    weight = 0
    for item in getattr(body, name):
        for part in slices_of(item, rest, size, weigh):
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
    """The answers to the slices, joined. A single answer is left as it is, however long."""

    __slots__ = ("_joined", "_only")

    def __init__(self) -> None:
        self._only: Mapping[str, Any] | None = None
        self._joined: dict[str, Any] = {}

    @property
    def fields(self) -> Mapping[str, Any]:
        """Fields of the slices so far."""
        return self._joined if self._only is None else self._only

    def add(self, fields: Mapping[str, Any]) -> None:
        """Add the next answer; the cost does not depend on the size of those before."""
        if self._only is None and not self._joined:
            self._only = fields
            return
        if self._only is not None:
            only, self._only = self._only, None
            join(self._joined, only)
        join(self._joined, fields)


def join(whole: dict[str, Any], part: Mapping[str, Any]) -> None:
    """Append the arrays of `part` to those of `whole`; of errors the first one is kept."""
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
    """Return a copy of an entity that may be extended."""
    if not isinstance(item, Mapping):
        return item
    return {name: list(v) if isinstance(v, list | tuple) else v for name, v in item.items()}


def _is_continued(last: Any, first: Any) -> bool:
    """Whether two entities are parts of one: they have arrays, and all other fields are equal."""
    if not isinstance(last, Mapping) or not isinstance(first, Mapping):
        return False
    is_array = {name: isinstance(value, list | tuple) for name, value in first.items()}
    same = all(last.get(name) == first[name] for name, array in is_array.items() if not array)
    return same and any(is_array.values())
