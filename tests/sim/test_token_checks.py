"""Planted bugs of delegation tokens are found by those who log in by them."""

from typing import Any

import pytest

from penstock.access.delegation import TokenLogin
from penstock.controller.metadata import snapshot, snapshot_config
from penstock.controller.metadata.token_records import DelegationTokenChanged
from penstock.kafka.handlers.access import create_delegation_token
from penstock.node.access.token_logins import TokenLogins
from simulator.run.plan import Fault, Shape
from tests.sim.small_runs import first_findings, kill

pytestmark = [
    pytest.mark.timeout(600),  # hangs only; what a run may take is bounded in the run
    pytest.mark.usefixtures("quiet"),
]
MonkeyPatch = pytest.MonkeyPatch
SHAPE = Shape(
    is_apart=True,
    partitions=1,
    producers=1,
    records_per_second=20,
    snapshot_after_bytes=2_048,
    administrators=1,
    token_holders=2,
)


CALM = (kill(3_000, "c1"),)
ALL_DIE = tuple(
    kill(1_000 + 1_700 * at, target)
    for at, target in enumerate(("b1", "active", "b2", "active", "b3"))
)


def found(faults: tuple[Fault, ...] = CALM, seeds: int = 3) -> list[str]:
    """Run under a few seeds; return what the first one that breaks says."""
    return first_findings(SHAPE, faults, seeds)


def test_tokens_are_let_in_as_they_should_while_brokers_and_controllers_die() -> None:
    assert found(ALL_DIE, seeds=2) == []


def test_a_token_that_is_never_over_is_found(planted: MonkeyPatch) -> None:
    planted.setattr(DelegationTokenChanged, "is_over", lambda _, __: False)
    assert any("after its end" in one or "over or gone" in one for one in found())


def test_a_removed_token_whose_keys_are_kept_is_found(planted: MonkeyPatch) -> None:
    find, known = TokenLogins.find, dict[tuple[int, str, str], TokenLogin]()

    def kept(self: TokenLogins, mechanism: str, token_id: str) -> TokenLogin:
        login = find(self, mechanism, token_id)
        if login.owner is not None:
            known[id(self), mechanism, token_id] = login
        return known.get((id(self), mechanism, token_id), login)

    planted.setattr(TokenLogins, "find", kept)
    assert any("over or gone" in one or "after its end" in one for one in found())


def test_a_mechanism_that_knows_no_token_is_found(planted: MonkeyPatch) -> None:
    find = TokenLogins.find

    def forgetful(self: TokenLogins, mechanism: str, token_id: str) -> TokenLogin:
        return find(self, mechanism, token_id if mechanism == "SCRAM-SHA-512" else "")

    planted.setattr(TokenLogins, "find", forgetful)
    assert any("is not let in" in one for one in found())


def test_a_token_that_may_make_tokens_is_found(planted: MonkeyPatch) -> None:
    def secrets(context: Any) -> Any:
        return context.front.token_secrets()

    planted.setattr(create_delegation_token, "token_secrets", secrets)
    assert any("a token makes a token" in one for one in found())


def test_a_snapshot_without_tokens_is_found_once_brokers_have_started_from_it(
    planted: MonkeyPatch,
) -> None:
    records = snapshot_config.configuration_records
    planted.setattr(
        snapshot,
        "configuration_records",
        lambda image: [one for one in records(image) if "Token" not in type(one).__name__],
    )
    assert found(ALL_DIE)
