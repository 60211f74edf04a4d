"""What checks the calls of a connection, by itself: time and files are the test's."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from penstock.grpc.errors import CallFault, Refused
from penstock.grpc.signed import FAILURES_AT_ONCE, USERS_MAX, SignedCalls
from penstock.grpc.statuses import Code
from penstock.net.errors import CloseKind
from penstock.net.tls.failed_logins import FailedLogins
from penstock.remoting.signed import SignedPorts
from tests.grpc.signing import signed
from tests.net.minutes import Minutes

FAILED_MS = 250


@dataclass
class World:
    """A connection, its clock, its timers, and the access keys."""

    client_host: str = "10.0.0.1"
    principal: str = ""
    keys: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    passed_ms: int = 0
    timers: list[tuple[int, Callable[[], object]]] = field(default_factory=list)
    ended: list[CloseKind] = field(default_factory=list)

    def __post_init__(self) -> None:
        ports = SignedPorts(
            keys=lambda: self.keys,
            scheduler=cast("Any", self),
            failed_ms=FAILED_MS,
            failures=FailedLogins(Minutes()),
        )
        self.guard = SignedCalls(cast("Any", self), ports, cast("Any", self))

    def wall_ms(self) -> int:
        return int(datetime.now(UTC).timestamp() * 1_000)

    def monotonic_ms(self) -> int:
        return self.passed_ms

    def call_later(self, delay_ms: int, run: Callable[[], object]) -> None:
        self.timers.append((delay_ms, run))

    def end(self, kind: CloseKind) -> None:
        self.ended.append(kind)

    def call(self, user: str, secret: bytes | None = None) -> str:
        key = self.keys[user][-1] if secret is None else secret
        told = signed(user, key.decode(), timedelta())
        return self.guard.user_of([(name.encode(), value.encode()) for name, value in told])

    def fail(self) -> None:
        with pytest.raises(Refused) as refused:
            self.guard.user_of([])
        assert refused.value.code == Code.UNAUTHORIZED


@pytest.fixture
def world() -> World:
    return World(keys={"alice": (b"old", b"new"), "bob": (b"bob's",)})


def test_each_call_has_its_user_and_the_first_good_one_is_the_proof(world: World) -> None:
    assert world.principal == ""
    world.fail()
    assert world.principal == ""
    assert world.call("alice") == world.principal == "User:alice"
    assert world.call("bob") == "User:bob"


def test_failures_beyond_their_bound_end_the_connection_a_little_later(world: World) -> None:
    for _ in range(FAILURES_AT_ONCE):
        world.fail()
    assert not world.timers
    assert world.call("alice") == "User:alice"
    world.fail()
    with pytest.raises(CallFault):
        world.call("alice")
    ((delay_ms, run),) = world.timers
    assert (delay_ms, world.ended) == (FAILED_MS, [])
    run()
    assert world.ended == [CloseKind.AUTHENTICATION]


def test_a_failure_a_second_goes_on(world: World) -> None:
    for _ in range(5 * FAILURES_AT_ONCE):
        world.fail()
        world.passed_ms += 1_000
    assert not world.timers


def test_the_first_header_of_a_name_counts(world: World) -> None:
    good = [(name.encode(), value.encode()) for name, value in signed("bob", "bob's")]
    assert world.guard.user_of([*good, (b"authorization", b"")]) == "User:bob"
    with pytest.raises(Refused):
        world.guard.user_of([(b"authorization", b""), *good])


def test_it_is_late_once_a_secret_that_has_signed_is_gone(world: World) -> None:
    assert not world.guard.is_late()
    world.call("alice", b"old")
    world.call("bob")
    assert not world.guard.is_late()
    world.keys = {"alice": (b"new",), "bob": (b"bob's",)}
    assert world.guard.is_late()
    world.call("alice")
    assert not world.guard.is_late()
    world.keys = {"alice": (b"new",)}
    assert world.guard.is_late()


def test_a_connection_has_so_many_users(world: World) -> None:
    world.keys = {f"u{number}": (b"secret",) for number in range(USERS_MAX + 1)}
    for number in range(USERS_MAX):
        world.call(f"u{number}")
    with pytest.raises(Refused) as refused:
        world.call(f"u{USERS_MAX}")
    assert refused.value.code == Code.TOO_MANY_REQUESTS
    assert world.call("u0") == "User:u0"
    assert not world.timers
