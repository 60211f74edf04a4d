"""What the internal topic of half messages has: one kind of record for each thing that happens.

    half      the message as its partition gets it, and last the header `rmq.half`: its number, when
              it is to be checked next in ms, checks so far, topic id in hex, partition, group
    decided   no value, header `rmq.decided`: number, outcome, topic id, partition and offset of
              the copy (offset -1: there is none)
    checked   no value, header `rmq.checked`: number, checks so far, when the next one is due
    settled   no value, header `rmq.settled`: all decisions before it have their copies

The number of a half message is its offset, which its sender is told. One that is moved to the end
of the topic, so that what is behind it can be deleted, keeps its number; `-1` stands for the offset
of the record itself.

A record's time is when it was taken; `rmq.born` keeps the time of its sender (later/delayed.py).

Source: ours, docs/adr/0132; RocketMQ's RMQ_SYS_TRANS_HALF_TOPIC and its topic of operations.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from penstock.record.build import Record
from penstock.remoting.ids import locator_of
from penstock.remoting.later.delayed import stamped
from penstock.remoting.system_names import HEADER_OF, PREFIX, UNIQ_KEY

HALF_HEADER: Final = PREFIX + "half"
DECIDED_HEADER: Final = PREFIX + "decided"
CHECKED_HEADER: Final = PREFIX + "checked"
SETTLED_HEADER: Final = PREFIX + "settled"
OWN_OFFSET: Final = -1
NO_COPY: Final = -1

NUMBER_HEADER: Final = PREFIX + "TRAN_PREPARED_QUEUE_OFFSET"
"""Of a copy: the number of its half message, by which a new master finds the copy."""
ID_HEADER: Final = PREFIX + "__transactionId__"
TRAN_MSG: Final = "TRAN_MSG"
CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE: Final = "REAL_QID"
MARK: Final = PREFIX + TRAN_MSG
BY_PLACE: Final = b"place"
"""Value of the mark where the transaction's id is the place of the half message, else its id."""
_HALF_PARTS, _DECIDED_PARTS, _CHECKED_PARTS = 6, 5, 3


class Outcome(StrEnum):
    """What becomes of a half message."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    DISCARD = "discard"
    """Nobody has decided in time: it is where it can be looked at."""
    DROP = "drop"
    """Its topic is deleted."""


class Half(NamedTuple):
    """A half message beside its message."""

    number: int
    due_ms: int
    checks: int
    topic_id: bytes
    partition: int
    group: str


class Decided(NamedTuple):
    """That a half message is decided, and where its copy is to be.

    One without a copy has the topic of the half message; earlier releases left it out.
    """

    number: int
    outcome: Outcome
    topic_id: bytes = b""
    partition: int = 0
    offset: int = NO_COPY


class Checked(NamedTuple):
    """That the producers of a half message were asked."""

    number: int
    checks: int
    due_ms: int


class Settled(NamedTuple):
    """That the decisions before it have their copies."""


Event = Half | Decided | Checked | Settled


def half_record(half: Half, record: Record) -> Record:
    """Return the record of a half message."""
    told = f"{half.number} {half.due_ms} {half.checks} {half.topic_id.hex()} {half.partition} "
    header = HALF_HEADER, (told + half.group).encode()
    return record._replace(headers=(*record.headers, header))


def decided_record(decided: Decided, now_ms: int) -> Record:
    """Return the record of a decision."""
    topic = decided.topic_id.hex() or "-"
    told = f"{decided.number} {decided.outcome} {topic} {decided.partition} {decided.offset}"
    return Record(None, None, ((DECIDED_HEADER, told.encode()),), now_ms)


def checked_record(checked: Checked, now_ms: int) -> Record:
    """Return the record of a check."""
    told = f"{checked.number} {checked.checks} {checked.due_ms}"
    return Record(None, None, ((CHECKED_HEADER, told.encode()),), now_ms)


def settled_record(now_ms: int) -> Record:
    """Return the record that says that no copy is missing."""
    return Record(None, None, ((SETTLED_HEADER, b"1"),), now_ms)


def event_of(record: Record) -> Event | None:
    """Return what a record of the topic says; None if nothing of the front's has written it."""
    name, value = record.headers[-1] if record.headers else ("", None)
    try:
        text = (value or b"").decode()
        if name == HALF_HEADER:
            return _half(text)
        if name == DECIDED_HEADER:
            return _decided(text)
        if name == CHECKED_HEADER:
            number, checks, due_ms = map(int, text.split(" ", _CHECKED_PARTS - 1))
            return Checked(number, checks, due_ms)
        return Settled() if name == SETTLED_HEADER else None
    except ValueError:
        return None


def _half(text: str) -> Half:
    number, due_ms, checks, topic, partition, group = text.split(" ", _HALF_PARTS - 1)
    return Half(int(number), int(due_ms), int(checks), bytes.fromhex(topic), int(partition), group)


def _decided(text: str) -> Decided:
    number, outcome, topic, partition, offset = text.split(" ", _DECIDED_PARTS - 1)
    topic_id = b"" if topic == "-" else bytes.fromhex(topic)
    return Decided(int(number), Outcome(outcome), topic_id, int(partition), int(offset))


def message_of(record: Record) -> Record:
    """Return the message of a half message's record, which is still one of a transaction."""
    return record._replace(headers=record.headers[:-1])


def transaction_id(partition: int, number: int) -> str:
    """Return the text that names a half message by its place."""
    return text_of(locator_of(partition, number))


def text_of(locator: int) -> str:
    """Return a locator as the id of a transaction."""
    return f"{locator:016X}"


def copy_of(record: Record, number: int, place: str, now_ms: int) -> Record:
    """Return what is committed of a half message's record; `place` is its transaction_id.

    Like RocketMQ's it is marked as one of a transaction no more.
    """
    headers = [one for one in record.headers if one[0] not in {MARK, HALF_HEADER, NUMBER_HEADER}]
    names = dict(headers)
    is_by_place = (MARK, BY_PLACE) in record.headers
    told = place.encode() if is_by_place else names.get(HEADER_OF[UNIQ_KEY])
    if told is not None and ID_HEADER not in names:
        headers.append((ID_HEADER, told))
    headers.append((NUMBER_HEADER, b"%d" % number))
    return stamped(record._replace(headers=tuple(headers)), now_ms)


def discarded(record: Record, half: Half, topic: str, place: str, now_ms: int) -> Record:
    """Return what is kept of a half message that nobody has decided."""
    copy = copy_of(record, half.number, place, now_ms)
    told = {REAL_TOPIC: topic, REAL_QUEUE: str(half.partition), CHECK_TIMES: str(half.checks)}
    names = {PREFIX + name for name in told}
    kept = [one for one in copy.headers if one[0] not in names]
    added = [(PREFIX + name, text.encode()) for name, text in told.items()]
    return copy._replace(headers=(*kept, *added))


def is_copy(record: Record, number: int) -> bool:
    """Whether a record is the copy of this half message."""
    return (NUMBER_HEADER, b"%d" % number) in record.headers
