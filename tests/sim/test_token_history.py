"""Logins by a delegation token are judged by what is known of it."""

from simulator.history.tokens import REMOVED, SLACK_MS, Token


def token(expires_ms: int = 1_000) -> Token:
    return Token(token_id="t", proof=b"", ends_ms=9_000, expires_ms=expires_ms)


def login(one: Token, at_ms: int, *, is_let_in: bool, is_followed: bool = True) -> str:
    return one.wrong_login(
        is_let_in=is_let_in, began_ms=at_ms, ended_ms=at_ms + 5, is_followed=is_followed
    )


def test_a_good_token_lets_in_where_it_is_known() -> None:
    assert login(token(), 500, is_let_in=True) == ""
    assert "known and good" in login(token(), 500, is_let_in=False)
    assert login(token(), 500, is_let_in=False, is_followed=False) == ""


def test_one_that_is_over_lets_in_nowhere() -> None:
    late = 1_001 + SLACK_MS
    assert login(token(), late, is_let_in=False) == ""
    assert "after its end" in login(token(), late, is_let_in=True, is_followed=False)


def test_one_that_was_removed_may_let_in_until_its_end_where_that_is_not_known() -> None:
    one = token()
    one.changed(REMOVED)
    assert login(one, 500, is_let_in=True, is_followed=False) == ""
    assert "over or gone" in login(one, 500, is_let_in=True)
    assert login(one, 500, is_let_in=False) == ""


def test_one_that_was_renewed_and_shortened_is_good_until_its_last_end_where_known() -> None:
    one = token()
    one.changed(5_000)
    one.changed(2_000)
    assert login(one, 3_000, is_let_in=True, is_followed=False) == ""
    assert "over or gone" in login(one, 3_000, is_let_in=True)
    assert "after its end" in login(one, 6_000, is_let_in=True, is_followed=False)


def test_a_change_without_an_answer_leaves_both_possible() -> None:
    one = token()
    one.asked(REMOVED)
    assert login(one, 500, is_let_in=True) == ""
    assert login(one, 500, is_let_in=False) == ""
    assert one.wrong_description(None, now_ms=500) == ""
    assert one.wrong_description(1_000, now_ms=500) == ""


def test_what_a_broker_tells_that_has_followed_is_the_last_state() -> None:
    one = token()
    one.changed(2_000)
    assert one.wrong_description(2_000, now_ms=500) == ""
    assert "not until 2000" in one.wrong_description(1_000, now_ms=500)
    assert "is not told" in one.wrong_description(None, now_ms=500)
    assert one.wrong_description(None, now_ms=2_500) == ""
