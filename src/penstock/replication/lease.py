"""The master's lease: without it a master answers no reads and, under weaker policies, confirms
nothing.

The lease is held while a controller has answered what was sent to it within the last `lease_ms`,
or so many members have that the others are too few for an election, in each set that may be
recorded by now. Members answer only the master that they follow, so a member that answered had not
heard of a newer master. A member that leaves, as all do that hear of a newer master, no longer
counts.

    sent ──► answered ── lies in buffers ──► read       the lease counts from `sent` (ADR 0085)

When an answer is read says nothing about its age: it may have waited in a network, in a socket, or
for a loop that stood still. So each answer names what it answers, by when that was sent.

    policy all                not needed to confirm: that takes the whole set anyway
    set of the master alone   not needed: nobody else can be elected
    all others                needed; `is_wanted=False` means availability first

Reads need the lease under every policy: a master that was replaced without knowing it would show a
log that ends too early. Only a master that is alone in its set, and `is_wanted=False`, answer reads
without it.

A mastership begins without the lease: a member that reads in its log that it leads may have been
replaced long ago. The first answer that is certainly recent grants it (docs/adr/0026).

Time is an argument: monotonic milliseconds, which include the time of a suspend. The lease enforces
nothing by itself; its owner asks `is_held`.

Source: Gray and Cheriton 1989. RocketMQ has no lease: two masters acknowledge for a while (#7017).
"""

from penstock.base.ids import BrokerId
from penstock.base.invariant import invariant
from penstock.replication.confirm import Membership


class Lease:
    """The lease of one mastership."""

    __slots__ = (
        "_controller_ms",
        "_heard_ms",
        "_is_wanted",
        "_lease_ms",
        "_own_id",
        "_was_held",
        "losses",
    )

    def __init__(self, own_id: BrokerId, *, lease_ms: int, is_wanted: bool) -> None:
        """Begin a mastership; nobody has answered yet."""
        self._own_id = own_id
        self._lease_ms = lease_ms
        self._is_wanted = is_wanted
        self._controller_ms: int | None = None
        self._heard_ms: dict[BrokerId, int] = {}
        self._was_held = False
        self.losses = 0
        """How often the lease was lost in this mastership."""

    def note_controller(self, sent_ms: int) -> None:
        """Note that a controller answered what was sent to it at `sent_ms`."""
        if self._controller_ms is None or sent_ms > self._controller_ms:
            self._controller_ms = sent_ms

    def note_member(self, broker_id: BrokerId, sent_ms: int) -> None:
        """Note that a member follows this mastership, and has read what was sent at `sent_ms`."""
        self._heard_ms[broker_id] = max(sent_ms, self._heard_ms.get(broker_id, sent_ms))

    def forget_member(self, broker_id: BrokerId) -> None:
        """Drop a member whose connection ended: it may follow, or be, another master now."""
        self._heard_ms.pop(broker_id, None)

    def is_held(self, membership: Membership, now_ms: int) -> bool:
        """Return whether positions may be confirmed now; counts a loss when this ends."""
        invariant(self._own_id in membership.replicas, "who leads is a member", me=self._own_id)
        held = self._is_held(membership, now_ms)
        if self._was_held and not held:
            self.losses += 1
        self._was_held = held
        return held

    def covers_reads(
        self, membership: Membership, now_ms: int, *, is_handing_over: bool = False
    ) -> bool:
        """Return whether nobody else can have confirmed anything that this log lacks.

        While this master hands over, only members count: controllers answer every live broker, and
        may already have made another member the master.
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

    def _needs_master(
        self, membership: Membership, voters: tuple[BrokerId, ...], oldest: int
    ) -> bool:
        """Whether those of `voters` who have not answered are too few for an election."""
        if voters == (self._own_id,):
            return True
        answering = sum(
            voter == self._own_id or self._heard_ms.get(voter, oldest) > oldest for voter in voters
        )
        answers = membership.policy.answers_needed(len(membership.replicas), len(voters))
        return len(voters) - answering < answers
