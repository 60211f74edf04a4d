"""Producers that ask a coordinator, one thing at a time, and check each answer.

An answer that is lost is asked for again. A coordinator may turn a producer away for good only if
another instance has begun since, if a time was over, or if the id had expired.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.protocol.error_codes import ErrorCode as Code
from penstock.transactions.messages import NOBODY, Producer, ProducerReply
from penstock.transactions.state import EPOCH_MAX
from tests.transactions.chronicle import TIMEOUT_MS, Attempt, Chronicle
from tests.transactions.world import World

AGAIN = {
    Code.CONCURRENT_TRANSACTIONS,
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_COORDINATOR,
}


@dataclass(eq=False)
class Request:
    """One question, which may be asked several times."""

    kind: str
    producer: Producer | None
    attempt: Attempt | None = None
    is_commit: bool = False


@dataclass(eq=False)
class Instance:
    """A producer with a transactional id. What it was told, and what it waits for."""

    name: str
    version: int
    producer: Producer | None = None
    attempt: Attempt | None = None
    request: Request | None = None
    is_waiting: bool = False
    asked_count: int = 0
    is_dead: bool = False
    is_disturbed: bool = False
    """Whether it may be turned away."""
    is_replaced: bool = False
    """Whether it must be: another instance has a newer epoch."""
    sent: list[Request] = field(default_factory=list)


class Instances:
    """All producers of one history."""

    def __init__(self, chronicle: Chronicle, world: Callable[[], World]) -> None:
        self._chronicle = chronicle
        self._world = world
        self.all: list[Instance] = []
        self.given: dict[Producer, Instance] = {}
        self.acknowledged: list[tuple[Attempt, bool]] = []
        self._beginning: dict[str, set[Instance]] = {}
        """By name: who has asked for it without naming a producer, and has no answer."""

    def begin(self, name: str, version: int) -> None:
        """A new instance asks for an epoch."""
        one = Instance(name, version)
        self.all.append(one)
        self.ask(one, Request("init", None))

    def forget_answers(self) -> None:
        """Nobody hears of what was asked."""
        for one in self.all:
            one.is_waiting = False
            one.asked_count += 1

    def note_killed(self) -> None:
        """The coordinator has gone, and what it was asked."""
        self._beginning.clear()
        self.forget_answers()

    def note_expired(self) -> None:
        """Whose id was forgotten has no epoch any more, nor was it replaced."""
        for one in self.all:
            if one.name in self._chronicle.forgotten:
                one.is_disturbed, one.is_replaced = True, False
        self._chronicle.forgotten.clear()

    def note_time(self, now_ms: int) -> None:
        """Time has passed: an open transaction may be over."""
        for one in self.all:
            found = self._chronicle.latest.get(one.name)
            if one.attempt is not None and found is not None and found.start_ms >= 0:
                one.is_disturbed |= now_ms >= found.start_ms + TIMEOUT_MS

    def ask(self, one: Instance, request: Request) -> None:
        """Send a request, for the first time or again."""
        one.request = request
        one.is_waiting = True
        one.asked_count += 1
        if request not in one.sent:
            one.sent.append(request)
        number = one.asked_count
        self._send(one, request, lambda reply: self._heard(one, request, number, reply))

    def ask_again(self, one: Instance) -> None:
        """Send what has no answer."""
        assert one.request is not None
        self.ask(one, one.request)

    def ask_late(self, one: Instance, request: Request) -> None:
        """Something that was sent long ago arrives once more; nobody waits for the answer."""
        self._send(one, request, lambda reply: self._check(one, request, reply))

    def _send(self, one: Instance, request: Request, told: Callable[[ProducerReply], None]) -> None:
        is_new = request.kind == "init" and request.producer is None
        if is_new or (request.kind == "init" and request is one.request):
            self._give_up(one, is_new=is_new)
        must_fail = one.is_replaced and not is_new

        def heard(reply: ProducerReply) -> None:
            if is_new:
                self._beginning.get(one.name, set()).discard(one)
            if must_fail and one.is_replaced:
                assert reply.error is not Code.NONE, (request, reply)
            if is_new and reply.error is Code.NONE:
                for other in self.all:
                    if other.name == one.name:
                        other.is_replaced = other is not one
            told(reply)

        self._call(one, request, heard)

    def _give_up(self, one: Instance, *, is_new: bool) -> None:
        """Note whose transactions an instance ends that asks for an epoch."""
        if is_new:
            self._beginning.setdefault(one.name, set()).add(one)
        for other in self.all:
            if other.name == one.name and (is_new or other is one):
                other.is_disturbed |= other is not one
                if other.attempt is not None:
                    other.attempt.is_given_up = True

    def _call(self, one: Instance, request: Request, told: Any) -> None:
        coordinator, producer = self._world().coordinator, request.producer
        if request.kind == "init":
            coordinator.init_producer_id(one.name, TIMEOUT_MS, producer, told)
            return
        assert producer is not None
        if request.kind == "add":
            assert request.attempt is not None
            places = sorted(request.attempt.places)
            coordinator.add_partitions(one.name, producer, places, one.version, told)
            return
        if request.attempt is not None:
            request.attempt.asked.add(request.is_commit)
        is_commit = request.is_commit
        coordinator.end(one.name, producer, one.version, told, is_commit=is_commit)

    # Answers

    def _check(self, one: Instance, request: Request, reply: ProducerReply) -> None:
        """Check an answer, whether or not somebody waits for it."""
        if reply.error is not Code.NONE:
            assert reply.producer == NOBODY
            return
        assert 0 <= reply.producer.epoch <= EPOCH_MAX
        assert self.given.setdefault(reply.producer, one) is one, "two share an epoch"
        if request.kind == "end" and request.attempt is not None:
            self.acknowledged.append((request.attempt, request.is_commit))

    def _heard(self, one: Instance, request: Request, number: int, reply: ProducerReply) -> None:
        self._check(one, request, reply)
        if number != one.asked_count or one.is_dead:
            return
        one.is_waiting = False
        is_idle_end = request.kind == "end" and request.attempt is None
        if reply.error in AGAIN or (is_idle_end and reply.error is Code.INVALID_TXN_STATE):
            return
        one.request = None
        if reply.error is not Code.NONE:
            assert one.is_disturbed, (one, request, reply)
            one.is_dead = True
            return
        one.producer = reply.producer
        one.is_disturbed |= bool(self._beginning.get(one.name, set()) - {one})
        if request.kind == "add":
            assert one.attempt is not None
            one.attempt.has_begun = True
        else:
            one.attempt = None

    # What a producer does next

    def new_attempt(self, one: Instance) -> None:
        """Begin a transaction, or let another partition enter it."""
        if one.attempt is None:
            one.attempt = Attempt(one.name)
            one.attempt.is_given_up = bool(self._beginning.get(one.name))
        self._chronicle.new_place(one.attempt)
        self.ask(one, Request("add", one.producer, one.attempt))

    def end(self, one: Instance, *, is_commit: bool) -> None:
        """End the transaction; without one, version 2 may abort all the same."""
        if one.attempt is None and (one.version == 1 or is_commit):
            return
        self.ask(one, Request("end", one.producer, one.attempt, is_commit))

    def check_verified(self, one: Instance) -> None:
        """Ask whether the transaction has its partitions."""
        if one.producer is None or one.attempt is None:
            return
        found = self._world().coordinator.verify(one.name, one.producer, one.attempt.places)
        codes = set(found.values())
        if one.is_replaced or one.attempt.places <= self._chronicle.decided.keys():
            assert Code.NONE not in codes
        elif one.attempt.has_begun and not one.is_disturbed and one.request is None:
            assert codes <= {Code.NONE, *AGAIN}
