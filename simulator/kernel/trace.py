"""The trace of a run: a hash that is equal if two runs were identical.

Every callback adds (virtual time, process number) to a running hash, in order; named events add
their name and values. The last events are also kept as text. Only plain values may be recorded: an
object's address or identity would differ from run to run.
"""

import hashlib
from array import array
from collections import deque
from typing import NamedTuple

Value = str | bytes | int | float | bool | None
"""What may be noted; tuples of these as well, when flattened by the caller."""

EVENTS_KEPT = 20_000
"""Events that stay readable; the hash covers all."""
STEPS_BETWEEN_CHECKPOINTS = 10_000
"""How closely a difference between two runs can be located afterwards."""

_STEP_VALUES = 2
_FLUSH_VALUES = STEPS_BETWEEN_CHECKPOINTS * _STEP_VALUES
_PLAIN = (str, bytes, int, float, type(None))


class Event(NamedTuple):
    """Something worth reading about: `at_s` is virtual time since the run began."""

    at_s: float
    name: str
    values: tuple[Value, ...]

    def __str__(self) -> str:
        return " ".join((f"{self.at_s:11.6f}", self.name, *map(str, self.values)))


class Trace:
    """See the module."""

    __slots__ = ("_digest", "_steps", "checkpoints", "events")

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self._steps = array("d")
        self.events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self.checkpoints: list[str] = []
        """The hash after each STEPS_BETWEEN_CHECKPOINTS callbacks."""

    def step(self, at_s: float, process_number: int) -> None:
        """Note that a callback of the process runs now."""
        steps = self._steps
        steps.append(at_s)
        steps.append(process_number)
        if len(steps) >= _FLUSH_VALUES:
            self._flush()
            self.checkpoints.append(self._digest.hexdigest())

    def note(self, at_s: float, name: str, *values: Value) -> None:
        """Note a named event. Raises TypeError for values that may differ from run to run."""
        for value in values:
            if not isinstance(value, _PLAIN):
                raise TypeError(
                    f"event {name}: {type(value).__name__} is no plain value: give text"
                )
        self._flush()
        self._digest.update(repr((at_s, name, values)).encode())
        self.events.append(Event(at_s, name, values))

    def digest(self) -> str:
        """Return the hash of everything so far, in hexadecimal."""
        self._flush()
        return self._digest.hexdigest()

    def _flush(self) -> None:
        self._digest.update(self._steps.tobytes())
        del self._steps[:]
