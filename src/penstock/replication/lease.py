"""The master's lease: a cut-off master stops answering reads, and under weaker policies confirming.

Held while, within the last `lease_ms`, a controller has answered, or so many members have that the
others are too few for an election, by each set that may be recorded by now. Members answer only
the master that they follow, so whoever answered had not heard of a newer one. Who leaves, as each
member does that hears of a newer master, counts no more.

    policy all                no lease: without the whole set nothing is confirmed anyway
    set of the master alone   no lease: nobody else can be elected
    all other                 needed; `is_wanted=False` means availability first

Source: RocketMQ has none, and two masters acknowledge for a while (#7017); Gray and Cheriton 1989.
Reads need it under every policy: whoever was replaced without knowing it would go on to show a log
that ends too early. Only a set of the master alone, and `is_wanted=False`, answer them without.

It begins not held: whoever replays that it leads may have been replaced long ago. The first answer
that is surely of the present gives it (docs/adr/0026).

Time is an argument, monotonic milliseconds, which go on through a suspend. It stops nobody by
itself: the owner asks `is_held`.
"""

from penstock.replication.confirm import Membership


class Lease:
    """One mastership's lease."""

    __slots__ = (
        "_controller_ms",
        "_heard_ms",
        "_is_wanted",
        "_lease_ms",
        "_own_id",
        "_was_held",
        "losses",
    )

    def __init__(self, own_id: int, *, lease_ms: int, is_wanted: bool) -> None:
        """Begin a mastership; nobody has answered yet."""
        self._own_id = own_id
        self._lease_ms = lease_ms
        self._is_wanted = is_wanted
        self._controller_ms: int | None = None
        self._heard_ms: dict[int, int] = {}
        self._was_held = False
        self.losses = 0
        """How often it was lost in this mastership."""

    def note_controller(self, now_ms: int) -> None:
        """A controller has answered a message that was sent not long before `now_ms`."""
        self._controller_ms = now_ms

    def note_member(self, broker_id: int, now_ms: int) -> None:
        """A member that follows this mastership has said something."""
        self._heard_ms[broker_id] = now_ms

    def forget_member(self, broker_id: int) -> None:
        """A member's connection has ended: it may follow, or be, another master from now on."""
        self._heard_ms.pop(broker_id, None)

    def is_held(self, membership: Membership, now_ms: int) -> bool:
        """Return whether positions may be confirmed now; counts a loss when that has ended."""
        held = self._is_held(membership, now_ms)
        if self._was_held and not held:
            self.losses += 1
        self._was_held = held
        return held

    def covers_reads(
        self, membership: Membership, now_ms: int, *, is_handing_over: bool = False
    ) -> bool:
        """Return whether nobody else can have confirmed anything that the own log lacks.

        While it hands over only members count: the controllers go on to answer who is alive, and
        have perhaps made another one master already.
        """
        if not self._is_wanted:
            return True
        return self._has_heard(membership, now_ms, by_controller=not is_handing_over)

    def _is_held(self, membership: Membership, now_ms: int) -> bool:
        if not self._is_wanted or not membership.policy.needs_lease:
            return True
        return self._has_heard(membership, now_ms)

    def _has_heard(
        self, membership: Membership, now_ms: int, *, by_controller: bool = True
    ) -> bool:
        oldest = now_ms - self._lease_ms
        answered_ms = self._controller_ms
        if by_controller and answered_ms is not None and answered_ms > oldest:
            return True
        sets = membership.possible_voters()
        return all(self._needs_master(membership, voters, oldest) for voters in sets)

    def _needs_master(self, membership: Membership, voters: tuple[int, ...], oldest: int) -> bool:
        """Whether those of `voters` who have not answered are too few for an election."""
        if voters == (self._own_id,):
            return True
        answering = sum(
            voter == self._own_id or self._heard_ms.get(voter, oldest) > oldest for voter in voters
        )
        answers = membership.policy.answers_needed(len(membership.replicas), len(voters))
        return len(voters) - answering < answers
