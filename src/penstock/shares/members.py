"""The members of a share by a small number, and how many records each holds.

Numbers of members that hold nothing are given to others once the table is full. The record of a
member's first hand-out under a number has its name, so that a replay gives the same table.

Source: none; Kafka keeps the member id in each acquired batch.
"""

MEMBERS_MAX = 0xFFFF
"""Numbers have 16 bits; NOBODY is one of them."""
NOBODY = 0


class Members:
    """Names by number; number 0 is nobody's."""

    __slots__ = ("_numbers", "in_flight", "names")

    def __init__(self) -> None:
        self.names: list[str] = [""]
        self.in_flight: list[int] = [0]
        self._numbers: dict[str, int] = {}

    def number_of(self, name: str) -> int:
        """Return the number of a member; NOBODY if it has none."""
        return self._numbers.get(name, NOBODY)

    def vacant(self, count_max: int) -> int:
        """Return a number for a new member; NOBODY if `count_max` members hold something."""
        if len(self.names) <= min(count_max, MEMBERS_MAX):
            return len(self.names)
        for number in range(1, len(self.names)):
            if not self.in_flight[number]:
                return number
        return NOBODY

    def put(self, number: int, name: str) -> None:
        """Let a number be this member's."""
        while len(self.names) <= number:
            self.names.append("")
            self.in_flight.append(0)
        before = self.names[number]
        if self._numbers.get(before) == number:
            del self._numbers[before]
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
