"""The members of a share by a small number, and how many records each holds.

Numbers of members that hold nothing are given to others once there are many names. The record of a
member's first hand-out under a number has its name, so that a replay gives the same table.

Source: none; Kafka keeps the member id in each acquired batch.
"""

MEMBERS_MAX = 0xFFFF
"""Numbers have 16 bits; NOBODY is one of them."""
NOBODY = 0
NAMES_BYTES = 16 << 10
"""Of one share; with more, numbers of members that hold nothing are given to others."""
_ENTRY_BYTES = 150
"""Of a name in the tables, besides its characters."""


class Members:
    """Names by number; number 0 is nobody's."""

    __slots__ = ("_numbers", "in_flight", "names", "names_bytes")

    def __init__(self) -> None:
        self.names: list[str] = [""]
        self.in_flight: list[int] = [0]
        self._numbers: dict[str, int] = {}
        self.names_bytes = 0
        """Approximate memory of the table."""

    def number_of(self, name: str) -> int:
        """Return the number of a member; NOBODY if it has none."""
        return self._numbers.get(name, NOBODY)

    def vacant(self, count_max: int) -> int:
        """Return a number for a new member; NOBODY if `count_max` members hold something."""
        is_open = len(self.names) <= min(count_max, MEMBERS_MAX)
        if is_open and self.names_bytes < NAMES_BYTES:
            return len(self.names)
        for number in range(1, len(self.names)):
            if not self.in_flight[number]:
                return number
        return len(self.names) if is_open else NOBODY

    def put(self, number: int, name: str) -> None:
        """Let a number be this member's."""
        while len(self.names) <= number:
            self.names.append("")
            self.in_flight.append(0)
            self.names_bytes += _ENTRY_BYTES
        before = self.names[number]
        if self._numbers.get(before) == number:
            del self._numbers[before]
        self.names_bytes += len(name) - len(before)
        self.names[number] = name
        self._numbers[name] = number

    def hold(self, number: int) -> None:
        """Count a record that was found in a member's hands."""
        while len(self.names) <= number:
            self.names.append("")
            self.in_flight.append(0)
        self.in_flight[number] += 1

    def let_go(self) -> None:
        """Let nobody hold anything; the names stay."""
        self.in_flight = [0] * len(self.names)
