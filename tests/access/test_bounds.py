"""What is exactly as long, or as many, as is allowed is taken; one more is not."""

import pytest

from penstock.access.authoriser import NAME_CHARACTERS_KEPT
from penstock.access.bearer import BEARER_BYTES_MAX, Bearer
from penstock.access.call_signatures import HEADER_BYTES_MAX
from penstock.access.delegation import (
    SECRET_BYTES_MAX,
    SECRET_BYTES_MIN,
    SECRETS_MAX,
    secrets_of,
)
from penstock.access.filters import PatternFilter
from penstock.access.sasl import SaslServer, SaslState, SaslUsers
from penstock.base.errors import ConfigError
from tests.access.provider import message
from tests.access.test_authoriser import TOPIC, Op, Question, ask, authoriser
from tests.access.test_bearer import never
from tests.access.test_call_signatures import ALICE, DATE, good, header
from tests.access.test_filters import EXACT


def test_a_decision_of_the_longest_kept_name_is_remembered() -> None:
    made = authoriser(if_none=True)
    for number, length in enumerate((NAME_CHARACTERS_KEPT, NAME_CHARACTERS_KEPT + 1)):
        assert ask(made, Question("User:a", "::1", Op(number + 3), TOPIC, "t" * length))
    assert made.decision_count == 1


def test_each_change_of_rules_is_a_new_generation() -> None:
    made = authoriser(if_none=True)
    before = made.generation
    made.change([], [])
    made.change([], [])
    assert made.generation == before + 2


def bearer(length: int) -> SaslServer:
    def check(token: str) -> Bearer:
        return Bearer("alice", len(token))

    users = SaslUsers(mechanisms=("OAUTHBEARER",), keys=never, new_nonce=lambda: "", bearer=check)
    made = SaslServer(users)
    assert made.choose("OAUTHBEARER")
    sent = message("x" * (length - len(message(""))))
    assert len(sent) == length
    made.take(sent)
    return made


def test_a_message_of_a_bearer_has_as_many_bytes_as_is_said() -> None:
    assert bearer(BEARER_BYTES_MAX).state is SaslState.AUTHENTICATED
    assert bearer(BEARER_BYTES_MAX + 1).state is SaslState.FAILED


@pytest.mark.parametrize(("more", "is_good"), [(0, True), (1, False)])
def test_headers_of_a_signed_call_have_as_many_bytes_as_is_said(more: int, is_good: bool) -> None:
    date = DATE.ljust(HEADER_BYTES_MAX + more, b" ")
    assert (good(header("alice", ALICE, date), date) is not None) is is_good
    told = header("alice", ALICE)
    padded = told.replace(
        b"Credential", b" " * (HEADER_BYTES_MAX + more - len(told)) + b"Credential"
    )
    assert len(padded) == HEADER_BYTES_MAX + more
    assert (good(padded) is not None) is is_good


def secrets(count: int, length: int = SECRET_BYTES_MIN) -> list[str]:
    return [f"{number}".ljust(length, "-") for number in range(count)]


@pytest.mark.parametrize("lines", [secrets(1), secrets(SECRETS_MAX), secrets(1, SECRET_BYTES_MAX)])
def test_as_many_and_as_long_secrets_of_tokens_as_is_said_are_taken(lines: list[str]) -> None:
    assert secrets_of("file", lines).hmac_of("a token") == b"", "none is of these"


@pytest.mark.parametrize(
    "lines",
    [
        [],
        secrets(SECRETS_MAX + 1),
        secrets(1, SECRET_BYTES_MIN - 1),
        secrets(1, SECRET_BYTES_MAX + 1),
    ],
)
def test_one_secret_or_one_byte_beyond_is_refused(lines: list[str]) -> None:
    with pytest.raises(ConfigError, match="file has"):
        secrets_of("file", lines)


@pytest.mark.parametrize("pattern", [PatternFilter.ANY, PatternFilter.MATCH])
def test_a_filter_with_an_open_pattern_may_find_other_rules(pattern: PatternFilter) -> None:
    assert EXACT._replace(pattern=pattern).only_rule() is None
