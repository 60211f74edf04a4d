"""Delegation tokens: who may make and change them, and when they are over."""

import itertools
from dataclasses import replace
from typing import Any, get_type_hints

import pytest

from penstock.base.ids import TopicId
from penstock.controller.commands import codec
from penstock.controller.commands.delegation import tokens
from penstock.controller.commands.delegation.commands import (
    CreateToken,
    ExpireToken,
    NewToken,
    RemoveExpiredTokens,
    RenewToken,
)
from penstock.controller.config import ControllerConfig
from penstock.controller.errors import (
    FeatureLevelTooLow,
    InvalidMetadataRequest,
    MetadataPolicyViolation,
    NotOwnerOfToken,
    TokenExpired,
    TokenNotFound,
)
from penstock.controller.metadata.levels import METADATA, TOKENS_LEVEL
from penstock.controller.metadata.snapshot import snapshot_records
from penstock.kafka.error_map import error_code_of
from penstock.protocol.error_codes import ErrorCode
from tests.controller.cluster import Cluster
from tests.controller.world import World

DAY_MS = 24 * 3_600_000
LOOK_MS = ControllerConfig().delegation_token_expiry_check_interval_ms


class Tokens(Cluster):
    """A cluster whose wall clock stands where a test puts it."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1_000
        self.controller._context = replace(self.controller._context, wall_ms=lambda: self.now_ms)

    def make(self, owner: str = "User:a", **fields: Any) -> NewToken:
        wanted = {"requester": owner, "tag": "1a2b3c", **fields}
        return self.submit(CreateToken(owner=owner, **wanted))


def test_a_token_is_good_for_a_day_and_can_be_renewed_for_seven() -> None:
    cluster = Tokens()
    made = cluster.make()
    assert made.issued_ms == 1_000
    assert made.expires_ms == 1_000 + DAY_MS
    assert made.ends_ms == 1_000 + 7 * DAY_MS
    for day in range(1, 8):
        cluster.now_ms = 1_000 + day * (DAY_MS - 1)
        expires_ms = cluster.submit(RenewToken(token_id=made.token_id, asker="User:a"))
        assert expires_ms == min(cluster.now_ms + DAY_MS, made.ends_ms)
    cluster.now_ms = made.ends_ms
    with pytest.raises(TokenExpired):
        cluster.submit(RenewToken(token_id=made.token_id, asker="User:a"))


@pytest.mark.parametrize(
    ("asked_ms", "given_ms"),
    [(-1, 7 * DAY_MS), (0, 7 * DAY_MS), (1, 1), (8 * DAY_MS, 7 * DAY_MS), (2**63 - 1, 7 * DAY_MS)],
)
def test_a_lifetime_is_what_was_asked_for_up_to_the_longest(asked_ms: int, given_ms: int) -> None:
    cluster = Tokens()
    made = cluster.make(lifetime_ms=asked_ms)
    assert made.token_id.startswith("1a2b3c-")
    assert made.ends_ms - made.issued_ms == given_ms
    assert made.expires_ms - made.issued_ms == min(given_ms, DAY_MS)


@pytest.mark.parametrize(
    ("asked_ms", "given_ms"), [(-1, DAY_MS), (0, DAY_MS), (1, 1), (2 * DAY_MS, DAY_MS)]
)
def test_a_renewal_is_for_what_was_asked_up_to_the_usual_period(
    asked_ms: int, given_ms: int
) -> None:
    cluster = Tokens()
    token_id = cluster.make().token_id
    cluster.now_ms += 500
    renewal = RenewToken(token_id=token_id, asker="User:a", period_ms=asked_ms)
    assert cluster.submit(renewal) == cluster.now_ms + given_ms


@pytest.mark.parametrize("asker", ["User:a", "User:requester", "User:renewer"])
@pytest.mark.parametrize("command", [RenewToken, ExpireToken])
def test_owner_requester_and_renewers_change_a_token(asker: str, command: type[Any]) -> None:
    cluster = Tokens()
    made = cluster.make(requester="User:requester", renewers=("User:renewer", "User:renewer"))
    assert cluster.image.configuration.tokens[made.token_id].renewers == ("User:renewer",)
    asked = command(token_id=made.token_id, asker=asker, period_ms=5)
    assert cluster.submit(asked) == cluster.now_ms + 5
    assert cluster.image.configuration.tokens[made.token_id].expires_ms == cluster.now_ms + 5


@pytest.mark.parametrize("command", [RenewToken, ExpireToken])
def test_nobody_else_does_and_an_unknown_token_is_not_found(command: type[Any]) -> None:
    cluster = Tokens()
    token_id = cluster.make(renewers=("User:b",)).token_id
    before = dict(cluster.image.configuration.tokens)
    with pytest.raises(NotOwnerOfToken) as other:
        cluster.submit(command(token_id=token_id, asker="User:c"))
    with pytest.raises(TokenNotFound) as missing:
        cluster.submit(command(token_id="x", asker="User:a"))
    assert cluster.image.configuration.tokens == before
    assert error_code_of(other.value) == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert error_code_of(missing.value) == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert error_code_of(TokenExpired("")) == ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_a_token_that_is_over_is_not_renewed_and_can_be_removed_at_once() -> None:
    cluster = Tokens()
    token_id = cluster.make().token_id
    assert cluster.submit(ExpireToken(token_id=token_id, asker="User:a", period_ms=0)) == 1_000
    for command in (RenewToken, ExpireToken):
        with pytest.raises(TokenExpired):
            cluster.submit(command(token_id=token_id, asker="User:a", period_ms=9))
    assert cluster.submit(ExpireToken(token_id=token_id, asker="User:a")) == 1_000
    assert not cluster.image.configuration.tokens


def test_tokens_that_are_over_are_removed_a_bounded_number_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokens, "REMOVED_MAX", 2)
    cluster = Tokens()
    made = [cluster.make(lifetime_ms=life).token_id for life in (3, 1, 2, 9)]
    cluster.now_ms += 3
    assert cluster.submit(RemoveExpiredTokens()) == 2
    assert set(cluster.image.configuration.tokens) == {made[2], made[3]}
    assert cluster.submit(RemoveExpiredTokens()) == 1
    assert cluster.submit(RemoveExpiredTokens()) == 0
    assert set(cluster.image.configuration.tokens) == {made[3]}


def test_there_are_bounds_for_an_owner_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "TOKENS_OF_OWNER_MAX", 1)
    monkeypatch.setattr(tokens, "TOKENS_MAX", 2)
    cluster = Tokens()
    cluster.make()
    with pytest.raises(MetadataPolicyViolation, match="An owner has 1"):
        cluster.make()
    cluster.make("User:b")
    with pytest.raises(MetadataPolicyViolation, match="2 delegation tokens"):
        cluster.make("User:c")


@pytest.mark.parametrize(
    "fields",
    [
        {"owner": "a"},
        {"tag": "1a-2b"},
        {"tag": "1" * 17},
        {"owner": "User:"},
        {"requester": ":a"},
        {"renewers": ("User:" + "x" * tokens.PRINCIPAL_CHARACTERS_MAX,)},
        {"renewers": ("User:b",) * (tokens.RENEWERS_MAX + 1)},
    ],
)
def test_who_is_no_principal_has_no_token(fields: dict[str, Any]) -> None:
    cluster = Tokens()
    with pytest.raises(InvalidMetadataRequest):
        cluster.make(**fields)
    assert not cluster.image.configuration.tokens


def test_tokens_wait_for_the_level_that_they_need() -> None:
    cluster = Tokens()
    cluster.image.features[METADATA] = TOKENS_LEVEL - 1
    with pytest.raises(FeatureLevelTooLow):
        cluster.make()


def test_a_snapshot_has_the_tokens() -> None:
    cluster = Tokens()
    cluster.make(renewers=("User:b",))
    again = Cluster()
    again.controller.install(snapshot_records(cluster.image))
    assert again.image.configuration.tokens == cluster.image.configuration.tokens


@pytest.mark.parametrize("command", [CreateToken, RenewToken, ExpireToken])
def test_commands_arrive_as_they_were_sent(command: type[Any]) -> None:
    samples: dict[Any, Any] = {str: "ü", int: 7, tuple[str, ...]: ("User:b",)}
    sent = command(**{name: samples[kind] for name, kind in get_type_hints(command).items()})
    assert codec.decode_command(codec.encode_command(sent)) == sent


def _asked(world: World) -> NewToken:
    made: NewToken = world.ask(
        CreateToken(owner="User:a", requester="User:a", tag="1", lifetime_ms=30_000)
    )
    return made


def test_the_active_controller_removes_what_is_over() -> None:
    world = World()
    made = _asked(world)
    world.run(for_ms=29_000)
    assert set(world.image.configuration.tokens) == {made.token_id}
    world.run(for_ms=LOOK_MS + 2_000)
    assert not world.image.configuration.tokens
    world.run(for_ms=2 * LOOK_MS)
    assert world.commands.count(RemoveExpiredTokens()) == 1, "there is nothing more"
    world.check_replay()


def test_what_one_entry_did_not_remove_is_removed_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "REMOVED_MAX", 1)
    world = World()
    controller, ids = world.controllers[1].controller, itertools.count(1)
    controller._context = replace(
        controller._context, new_topic_id=lambda: TopicId(next(ids).to_bytes(16, "big"))
    )
    for _ in range(3):
        _asked(world)
    world.run(for_ms=LOOK_MS + 2_000)
    assert not world.image.configuration.tokens
    assert world.commands.count(RemoveExpiredTokens()) == 3


def test_a_removal_that_the_log_did_not_take_is_tried_at_the_next_look() -> None:
    world = World()
    _asked(world)
    world.is_log_stuck = True
    world.run(for_ms=30_000 + LOOK_MS)
    assert world.image.configuration.tokens
    world.is_log_stuck = False
    world.run(for_ms=LOOK_MS + 1_000)
    assert not world.image.configuration.tokens


def test_a_controller_that_takes_over_looks_at_once() -> None:
    world = World(controller_count=2)
    _asked(world)
    for leader in (2, 1):
        world.run(for_ms=10_000)
        world.lead(leader)
    world.run(for_ms=LOOK_MS - 22_000)
    assert world.image.configuration.tokens, "both have looked before it was over"
    world.lead(2)
    world.run(for_ms=1_000)
    assert not world.image.configuration.tokens
