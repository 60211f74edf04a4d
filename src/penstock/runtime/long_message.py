"""Decodes a long message of a peer in slices: its lists are counted first, then decoded in parts.

    frame ─► envelope: every field but the lists, whose elements stay bytes ─► 100 elements ─► ...

The envelope skips over elements at a tenth of the cost of decoding them; a list that is too long is
refused by the length in front of it, before any element is read.

Source: our own; msgspec's Raw and its constraints of length.
"""

import dataclasses
from collections.abc import Generator, Mapping
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

import msgspec

SLICE = 200
"""Elements per slice; an element is a set or a member of one and takes some microseconds."""


class Bounds(NamedTuple):
    """Limits for messages of one kind."""

    bytes_max: int = (1 << 32) - 1
    counts: Mapping[str, int] = {}
    """Most elements, by the name of a field that is a tuple of messages or strings."""


class LongMessage:
    """Decodes one class of messages in slices."""

    __slots__ = ("_class", "_envelope", "_names", "_readers")

    def __init__(self, cls: type[Any], counts: Mapping[str, int]) -> None:
        """`cls` is a dataclass, `counts` as in Bounds."""
        hints = get_type_hints(cls)
        fields = dataclasses.fields(cls)
        self._class = cls
        self._names = [field.name for field in fields]
        self._readers = {
            name: msgspec.msgpack.Decoder(get_args(hints[name])[0]).decode for name in counts
        }
        envelope = msgspec.defstruct(
            f"Long{cls.__name__}",
            [_declared(field, hints[field.name], counts.get(field.name)) for field in fields],
            kw_only=True,
        )
        self._envelope = msgspec.msgpack.Decoder(envelope).decode

    def slices(self, body: memoryview) -> Generator[None, None, object]:
        """Decode the fields in `body`, one slice per step. Raises msgspec.MsgspecError."""
        envelope = self._envelope(body)
        yield
        values = {name: getattr(envelope, name) for name in self._names}
        for name, read in self._readers.items():
            elements: list[object] = []
            for at in range(0, len(values[name]), SLICE):
                elements += map(read, values[name][at : at + SLICE])
                yield
            values[name] = tuple(elements)
        return self._class(**values)


def _declared(field: "dataclasses.Field[Any]", hint: Any, count_max: int | None) -> Any:
    """Return the envelope's field: name, type and, if it is optional, its default."""
    kind = hint if count_max is None else Annotated[
        list[msgspec.Raw], msgspec.Meta(max_length=count_max)
    ]  # fmt: skip
    if field.default is dataclasses.MISSING:
        return field.name, kind
    return field.name, kind, field.default if count_max is None else msgspec.field(
        default_factory=list
    )  # fmt: skip
