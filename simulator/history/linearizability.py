"""A linearizability checker: is there a sequential order of the operations that explains them?

A history is a list of operations with a begin, an end and a result; a model defines the effect and
result of each on a state. The search looks for an order in which each operation takes effect
between its begin and its end:

    always try the first operation that had begun before any open one ended
        it fits         -> take it out, go on from the new states
        nothing fits    -> take the last one back, try the next
    (set of operations taken, states) was there before -> nothing new behind it

An operation without an answer may have taken effect at any time after its begin, or never. Keys
(topics, brokers, replica sets) are independent, so each is searched separately, which keeps the
search short. It is exponential in the number of concurrent operations, and therefore bounded:
beyond `steps_max` the verdict is UNKNOWN, which is neither a pass nor a failure.

Source: Wing and Gong 1993 (the search); Lowe 2017 (memoisation); Herlihy and Wing 1990 (locality).
Departure: models may be nondeterministic, so a state is a set of possible states.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol

STEPS_MAX = 200_000
"""Model steps for one key: a second or two, and the memory for what was tried stays small."""


class _Unknown(Enum):
    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = _Unknown.UNKNOWN
"""The result of an operation that was not answered."""


class Operation(NamedTuple):
    """One request of one client. Times are nanoseconds of one monotonic clock."""

    client: str
    key: Hashable
    """What it is about; operations on different keys do not touch each other."""
    call: Hashable
    start_ns: int
    end_ns: int | None
    """None: it was never answered, and its result is UNKNOWN."""
    result: Any = UNKNOWN


class Model(Protocol):
    """What operations do when they happen one after the other."""

    def initial(self, key: Hashable) -> Hashable:
        """Return the state of a key before all operations."""

    def steps(self, state: Any, call: Any, result: Any) -> Iterable[Hashable]:
        """Return every state that `call` may leave when it is answered so; none: it may not.

        With the result UNKNOWN those that it may leave when it took effect.
        """


class Verdict(Enum):
    """What the search found out."""

    LINEARIZABLE = "linearizable"
    VIOLATION = "violation"
    UNKNOWN = "unknown"  # the bound was hit


class Judgement(NamedTuple):
    """The verdict on one history."""

    verdict: Verdict
    steps: int
    detail: str = ""
    """For a violation: the key, and the operation that no order explains."""


def check_linearizable(
    operations: Iterable[Operation], model: Model, *, steps_max: int = STEPS_MAX
) -> Judgement:
    """Judge a history, key by key, each with `steps_max` model steps.

    A violation of one key is one of the whole; without any, one unknown key leaves it unknown.
    """
    by_key: dict[Hashable, list[Operation]] = {}
    for operation in operations:
        by_key.setdefault(operation.key, []).append(operation)
    steps, unknown = 0, ""
    for key, group in by_key.items():
        found = _Search(group, model, model.initial(key), steps_max).run()
        steps += found.steps
        if found.verdict is Verdict.VIOLATION:
            return Judgement(found.verdict, steps, f"{key!r}: {found.detail}")
        if found.verdict is Verdict.UNKNOWN:
            unknown = f"{key!r}: {found.detail}"
    return Judgement(Verdict.UNKNOWN if unknown else Verdict.LINEARIZABLE, steps, unknown)


_HEAD = 0


class _Search:
    """The search over one key's operations, with the events in a list that can be undone.

    Event 0 is the head; operation i begins at event `_call_of[i]` and ends at `_end_of[i]`.
    """

    def __init__(
        self, operations: Sequence[Operation], model: Model, initial: Hashable, steps_max: int
    ) -> None:
        self._operations = operations
        self._model = model
        self._steps_max = steps_max
        self._states = frozenset([initial])
        self._steps = 0
        self._taken = 0
        self._tried: set[tuple[int, frozenset[Hashable]]] = set()
        self._path: list[tuple[int, frozenset[Hashable]]] = []
        self._deepest = -1
        self._stuck_at: Operation | None = None
        self._next: list[int] = []
        self._previous: list[int] = []
        self._lay_out()

    def _lay_out(self) -> None:
        """Make the list of events; where two have one time, begins come before ends."""
        events = [(operation.start_ns, 0, at) for at, operation in enumerate(self._operations)]
        events += [
            (operation.end_ns, 1, at)
            for at, operation in enumerate(self._operations)
            if operation.end_ns is not None
        ]
        events.sort()
        count = len(events) + 1
        self._operation_at = [-1] + [at for _, _, at in events]
        self._is_end = [False] + [bool(kind) for _, kind, _ in events]
        self._end_of = [-1] * len(self._operations)
        for event in range(1, count):
            if self._is_end[event]:
                self._end_of[self._operation_at[event]] = event
        self._next = [*range(1, count), _HEAD]
        self._previous = [count - 1, *range(count - 1)]
        self._open = sum(operation.end_ns is not None for operation in self._operations)

    def run(self) -> Judgement:
        event = self._next[_HEAD]
        while self._open:
            if event == _HEAD or self._is_end[event]:
                self._note(event)
                if not self._path:
                    return Judgement(Verdict.VIOLATION, self._steps, self._explain())
                event = self._take_back()
            elif self._steps >= self._steps_max:
                detail = f"not decided in {self._steps} steps"
                return Judgement(Verdict.UNKNOWN, self._steps, detail)
            else:
                event = self._next[_HEAD] if self._maybe_take(event) else self._next[event]
        return Judgement(Verdict.LINEARIZABLE, self._steps)

    def _maybe_take(self, event: int) -> bool:
        """Let the operation that begins here happen next, if it can and leads somewhere new."""
        self._steps += 1
        at = self._operation_at[event]
        operation, steps = self._operations[at], self._model.steps
        states = frozenset(
            left
            for state in self._states
            for left in steps(state, operation.call, operation.result)
        )
        place = (self._taken | 1 << at, states)
        if not states or place in self._tried:
            return False
        self._tried.add(place)
        self._path.append((event, self._states))
        self._taken, self._states = place
        self._unlink(event)
        if (end := self._end_of[at]) >= 0:
            self._unlink(end)
            self._open -= 1
        return True

    def _take_back(self) -> int:
        """Undo the last operation; returns the event to go on with."""
        event, self._states = self._path.pop()
        at = self._operation_at[event]
        self._taken ^= 1 << at
        if (end := self._end_of[at]) >= 0:
            self._link(end)
            self._open += 1
        self._link(event)
        return self._next[event]

    def _unlink(self, event: int) -> None:
        before, after = self._previous[event], self._next[event]
        self._next[before], self._previous[after] = after, before

    def _link(self, event: int) -> None:
        before, after = self._previous[event], self._next[event]
        self._next[before] = self._previous[after] = event

    def _note(self, event: int) -> None:
        """Remember the operation at which the longest order so far got stuck."""
        if len(self._path) > self._deepest and event != _HEAD:
            self._deepest = len(self._path)
            self._stuck_at = self._operations[self._operation_at[event]]

    def _explain(self) -> str:
        stuck = self._stuck_at
        assert stuck is not None, "an end was reached before there was nothing to take back"
        return (
            f"no order explains {stuck.call!r} = {stuck.result!r} of {stuck.client};"
            f" {self._deepest} of {len(self._operations)} operations fit before it"
        )


class Recorder:
    """Notes operations as they begin and end; for a simulation and for real clients alike."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._operations: dict[int, Operation] = {}
        self._count = 0

    def began(self, client: str, key: Hashable, call: Hashable) -> int:
        """Note that a client asks for something; returns the number of the operation."""
        self._count += 1
        self._operations[self._count] = Operation(client, key, call, self._now_ns(), None)
        return self._count

    def answered(self, number: int, result: Hashable, *, stale_ns_max: int = 0) -> None:
        """Note the answer. An operation without one stays unknown.

        A read that may be answered from a copy may show what was so up to `stale_ns_max` before it
        began. Whatever a client repeated by itself has no certain result: leave it unknown.
        """
        operation = self._operations[number]
        start_ns = operation.start_ns - stale_ns_max
        self._operations[number] = operation._replace(
            start_ns=start_ns, end_ns=self._now_ns(), result=result
        )

    def refused(self, number: int) -> None:
        """Note that it certainly did not happen, for a reason that is none of the model's."""
        del self._operations[number]

    def history(self) -> list[Operation]:
        """Return all operations so far, in the order in which they began."""
        return list(self._operations.values())
