"""A share as a list of records, one object each: slow, plain, and written apart from the engine.

It knows more than a share can: every hand-out there ever was, also those that were lost with their
master. So it says of a receipt what the truth is.
"""

from dataclasses import dataclass, field, replace

AVAILABLE, HELD_BY, PAUSED = "available", "held", "paused"
OVER, DEAD, DYING = "over", "dead", "dying"


@dataclass
class HandOutMade:
    """A record in a member's hand, once."""

    number: int
    offset: int
    nonce: int
    member: str
    tenure: int


@dataclass
class Record:
    state: str = AVAILABLE
    count: int = 0
    due: int = 0
    key: int = 0
    last: HandOutMade | None = None


@dataclass
class Model:
    """What the log says. `lost` hand-outs are not in it."""

    start: int
    is_ordered: bool
    deliveries_max: int
    has_letters: bool
    pauses: tuple[int, ...]
    """In ticks."""
    records: dict[int, Record] = field(default_factory=dict)
    end: int = 0
    reset_at: int = 0
    """Number of the first hand-out after the last reset."""

    def __post_init__(self) -> None:
        self.end = self.end or self.start

    def copy(self) -> "Model":
        copied = {offset: replace(record) for offset, record in self.records.items()}
        return replace(self, records=copied)

    def record(self, offset: int) -> Record:
        return self.records[offset]

    def base(self) -> int:
        offset = self.start
        while offset < self.end and self.records[offset].state in {OVER, DEAD}:
            offset += 1
        return offset

    def extend(self, end: int, keys: dict[int, int]) -> None:
        while self.end < end:
            self.records[self.end] = Record(key=keys.get(self.end, 0))
            self.end += 1

    def is_blocked(self, offset: int) -> bool:
        """Whether an earlier record of the same key is not over."""
        key = self.record(offset).key
        return self.is_ordered and any(
            self.records[before].key == key and self.records[before].state not in {OVER, DEAD}
            for before in range(self.start, offset)
        )

    def available(self, visible_end: int) -> list[int]:
        return [
            offset
            for offset in range(self.start, min(self.end, visible_end))
            if self.records[offset].state == AVAILABLE and not self.is_blocked(offset)
        ]

    def in_flight(self, member: str | None = None) -> int:
        return sum(
            record.state == HELD_BY
            and (member is None or (record.last is not None and record.last.member == member))
            for record in self.records.values()
        )

    def give(self, made: HandOutMade, due: int) -> None:
        record = self.record(made.offset)
        assert record.state == AVAILABLE
        assert not self.is_blocked(made.offset)
        record.state, record.due, record.last = HELD_BY, due, made
        record.count += 1

    def holds(self, offset: int, nonce: int) -> bool:
        record = self.records.get(offset)
        if record is None or record.state != HELD_BY or record.last is None:
            return False
        return record.last.nonce == nonce

    def usual_pause(self, offset: int) -> int:
        if not self.pauses:
            return 0
        return self.pauses[min(self.record(offset).count, len(self.pauses)) - 1]

    def back(self, offset: int, now: int, pause: int) -> None:
        record = self.record(offset)
        if self.deliveries_max and record.count >= self.deliveries_max:
            self.give_up(offset)
        elif pause:
            record.state, record.due = PAUSED, now + pause
        else:
            record.state = AVAILABLE

    def give_up(self, offset: int) -> None:
        self.record(offset).state = DYING if self.has_letters else DEAD

    def expire(self, now: int) -> None:
        for offset in range(self.start, self.end):
            record = self.records[offset]
            if record.due <= now and record.state == HELD_BY:
                self.back(offset, now, self.usual_pause(offset))
            elif record.due <= now and record.state == PAUSED:
                record.state = AVAILABLE

    def advance(self, offset: int) -> None:
        if offset <= self.base():
            return
        for gone in range(self.start, min(offset, self.end)):
            if self.records[gone].state not in {OVER, DEAD}:
                self.records[gone].state = DEAD
        self.start = max(self.start, offset)
        self.end = max(self.end, offset)

    def reset(self, offset: int, number: int) -> None:
        self.records.clear()
        self.start = self.end = offset
        self.reset_at = number

    def may_accept(  # noqa: PLR0911  one answer for each case
        self, made: HandOutMade, tenure: int, visible_end: int, window_max: int
    ) -> str:
        """Return what becomes of a receipt: taken, already, lapsed."""
        offset = made.offset
        if offset < self.base():
            return "already"
        record = self.records.get(offset)
        if record is not None and record.state == OVER:
            return "already"
        if record is not None and record.state == HELD_BY and record.last is made:
            return "taken"
        if made.tenure == tenure or made.number < self.reset_at:
            return "lapsed"
        if offset >= min(visible_end, self.base() + window_max):
            return "lapsed"
        if record is None:
            return "lapsed" if self.is_ordered else "taken"
        if record.state in {DYING, DEAD}:
            return "lapsed"
        is_later = record.last is None or record.last.number < made.number
        return "taken" if is_later else "lapsed"
