"""Fields of a request as numbers and texts. All raise MalformedBody."""

from typing import Final

from penstock.remoting.errors import MalformedBody
from penstock.remoting.wire.command import Command

_DIGITS_MAX: Final = 20
_INT64_MAX: Final = (1 << 63) - 1


def text(command: Command, name: str) -> str:
    """Return a field that has to be there."""
    found = command.fields.get(name)
    if found is None:
        raise MalformedBody(f"the field {name} is missing")
    return found


def number(command: Command, name: str, otherwise: int | None = None) -> int:
    """Return a field as an int64; `otherwise` if it is not there, unless that is None."""
    found = command.fields.get(name)
    if found is None and otherwise is not None:
        return otherwise
    digits = text(command, name)
    try:
        read = int(digits) if len(digits) <= _DIGITS_MAX else None
    except ValueError:
        read = None
    if read is None or not -_INT64_MAX <= read <= _INT64_MAX:
        raise MalformedBody(f"the field {name} is no number")
    return read
