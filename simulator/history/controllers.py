"""Models of the controllers for the linearizability check: one small state per key.

| key | state | operations |
|---|---|---|
| ("topic", name) | missing, or id, partitions, configs | create, delete, describe, alter config |
| ("registration", broker) | incarnation and epoch | compare-and-set, read |
| ("leadership", set) | leader epoch and master | elect, read |

Results are a client's answers: OK, EXISTS, MISSING, CONFLICT, or the value read. Error codes that
do not depend on the state (timed out, not the controller) are no results: such an operation stays
unknown or is refused, see `linearizability.Recorder`.

The controller chooses a topic's id and an election's winner: the model accepts the first answer
and requires later ones to agree with it. Leaders also change without an operation, so a read may
have a newer epoch than any operation made; it may not have an older one, nor another master in the
same one.

Source: KIP-631 and RIP-44 for the operations; the models are our own.
"""

from collections.abc import Hashable, Iterable
from enum import Enum
from typing import NamedTuple

from simulator.history.linearizability import UNKNOWN


class Answer(Enum):
    """What a change can be answered with."""

    OK = "ok"
    EXISTS = "exists"
    MISSING = "missing"
    CONFLICT = "conflict"


class CreateTopic(NamedTuple):
    """Answered with OK or EXISTS."""

    partitions: int


class DeleteTopic(NamedTuple):
    """Answered with OK or MISSING."""


class AlterConfig(NamedTuple):
    """Answered with OK or MISSING. The value None takes the setting away."""

    name: str
    value: str | None


class ReadTopic(NamedTuple):
    """Answered with MISSING or a TopicSeen."""


class ReadConfig(NamedTuple):
    """Answered with MISSING or the value; None when it is not set on the topic."""

    name: str


class TopicSeen(NamedTuple):
    """What Metadata says of a topic."""

    topic_id: str
    partitions: int


class CompareAndSet(NamedTuple):
    """Answered with OK or CONFLICT; None is what was never set."""

    expected: Hashable
    value: Hashable


class ReadRegister(NamedTuple):
    """Answered with the value, None when it was never set."""


class Elect(NamedTuple):
    """Replace the master of `leader_epoch`. Answered with a LeaderSeen, or CONFLICT."""

    leader_epoch: int


class ReadLeader(NamedTuple):
    """Answered with a LeaderSeen."""


class LeaderSeen(NamedTuple):
    """Master and leader epoch; `master` is -1 if there is none."""

    leader_epoch: int
    master: int


class _Topic(NamedTuple):
    """An existing topic; the id is None until a client was answered with it."""

    partitions: int
    topic_id: str | None = None
    configs: tuple[tuple[str, str], ...] = ()


class ControllerModel:
    """All three kinds of keys."""

    def initial(self, key: Hashable) -> Hashable:
        """Return what there is in the beginning: no topic, no registration, no epoch."""
        assert isinstance(key, tuple), f"a key is a pair of kind and name, not {key!r}"
        return LeaderSeen(-1, -1) if key[0] == "leadership" else None

    def steps(self, state: Hashable, call: object, result: object) -> Iterable[Hashable]:
        """Return the states that `call` may leave when it is answered with `result`."""
        match call:
            case CreateTopic() | DeleteTopic() | AlterConfig() | ReadTopic() | ReadConfig():
                assert state is None or isinstance(state, _Topic)
                return _topic_steps(state, call, result)
            case CompareAndSet(expected, value):
                answer = Answer.OK if state == expected else Answer.CONFLICT
                return _when(result, answer, value if state == expected else state)
            case ReadRegister():
                return _when(result, state, state)
            case Elect() | ReadLeader():
                assert isinstance(state, LeaderSeen)
                return _leader_steps(state, call, result)
            case _:
                raise AssertionError(f"the model does not know {call!r}")


def _when(result: object, wanted: object, state: Hashable) -> Iterable[Hashable]:
    """Return the state, if the answer is the one that it needs."""
    return (state,) if result is UNKNOWN or result == wanted else ()


def _topic_steps(
    state: _Topic | None,
    call: CreateTopic | DeleteTopic | AlterConfig | ReadTopic | ReadConfig,
    result: object,
) -> Iterable[Hashable]:
    if isinstance(call, CreateTopic):
        is_new = state is None
        left = _Topic(call.partitions) if is_new else state
        return _when(result, Answer.OK if is_new else Answer.EXISTS, left)
    if state is None:
        return _when(result, Answer.MISSING, None)
    if isinstance(call, ReadTopic):
        return _read_topic(state, result)
    if isinstance(call, ReadConfig):
        return _when(result, dict(state.configs).get(call.name), state)
    left = None if isinstance(call, DeleteTopic) else _altered(state, call)
    return _when(result, Answer.OK, left)


def _altered(state: _Topic, call: AlterConfig) -> _Topic:
    configs = {name: value for name, value in state.configs if name != call.name}
    if call.value is not None:
        configs[call.name] = call.value
    return state._replace(configs=tuple(sorted(configs.items())))


def _read_topic(state: _Topic, result: object) -> Iterable[Hashable]:
    if result is UNKNOWN:
        return (state,)
    if not isinstance(result, TopicSeen) or result.partitions != state.partitions:
        return ()
    if state.topic_id not in {None, result.topic_id}:
        return ()
    return (state._replace(topic_id=result.topic_id),)


def _leader_steps(
    state: LeaderSeen, call: Elect | ReadLeader, result: object
) -> Iterable[Hashable]:
    """Return what may be so afterwards; a newer epoch may always have begun by itself."""
    if result is UNKNOWN:
        # What it did is not known, and whatever it did shows as a newer epoch somewhere.
        return (state,)
    if result is Answer.CONFLICT and isinstance(call, Elect):
        if state.leader_epoch > call.leader_epoch:
            return (state,)
        return (LeaderSeen(call.leader_epoch + 1, _ANYBODY),)  # somebody had been faster
    if not isinstance(result, LeaderSeen):
        return ()
    if isinstance(call, Elect):
        is_next = state.leader_epoch <= call.leader_epoch < result.leader_epoch
        return (result,) if is_next else ()
    return (result,) if _may_be_read(state, result) else ()


def _may_be_read(state: LeaderSeen, seen: LeaderSeen) -> bool:
    """An epoch has one master, who may be gone again before the next epoch begins."""
    if seen.leader_epoch != state.leader_epoch:
        return seen.leader_epoch > state.leader_epoch
    return state.master == _ANYBODY or seen.master in {state.master, _NOBODY}


_NOBODY = -1
_ANYBODY = -2
"""A master that no client was answered with yet."""
