"""Changes count when confirmed; the order of the journal decides."""

import weakref

from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.confirmed_map import ConfirmedMap


def test_a_change_shows_when_it_is_confirmed_and_not_before() -> None:
    kept: ConfirmedMap[str, int] = ConfirmedMap()
    ticket = kept.begin({"a": 1})
    assert (kept.values, kept.latest_of(kept.keys()), kept.is_in_flight("a")) == (
        {},
        {"a": 1},
        True,
    )
    kept.confirm(ticket)
    assert (kept.values, kept.is_in_flight("a")) == ({"a": 1}, False)


def test_a_refused_change_never_was() -> None:
    kept: ConfirmedMap[str, int] = ConfirmedMap()
    kept.confirm(kept.begin({"a": 1}))
    kept.refuse(kept.begin({"a": None}))
    assert kept.values == kept.latest_of(kept.keys()) == {"a": 1}


def test_the_later_append_wins_even_when_confirmed_first() -> None:
    kept: ConfirmedMap[str, int] = ConfirmedMap()
    first, second = kept.begin({"a": 1, "b": 1}), kept.begin({"a": 2})
    kept.confirm(second)
    assert kept.latest_of(kept.keys()) == {"a": 2, "b": 1}
    kept.confirm(first)
    assert kept.values == {"a": 2, "b": 1}


def test_an_older_change_under_way_does_not_undo_a_newer_one_that_is_confirmed() -> None:
    kept: ConfirmedMap[str, int] = ConfirmedMap()
    kept.begin({"a": 1, "b": 1})
    kept.confirm(kept.begin({"a": 2}))
    assert kept.latest_of(("a", "b")) == {"a": 2, "b": 1}


changes = st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 9), max_size=3)


@given(st.lists(st.tuples(changes, st.booleans()), max_size=8), st.randoms(use_true_random=False))
def test_any_order_of_confirmation_ends_like_the_log(
    script: list[tuple[dict[str, int | None], bool]], random: object
) -> None:
    kept: ConfirmedMap[str, int] = ConfirmedMap()
    log: dict[str, int] = {}
    outcomes = []
    for change, is_written in script:
        outcomes.append((kept.begin(change), is_written))
        for key, value in change.items() if is_written else ():
            log.pop(key, None)
            if value is not None:
                log[key] = value
    random.shuffle(outcomes)  # type: ignore[attr-defined]
    for ticket, is_written in outcomes:
        (kept.confirm if is_written else kept.refuse)(ticket)
    assert kept.values == kept.latest_of(kept.keys()) == log


class Key:
    """A key of which can be said whether anybody still holds it."""


def test_nothing_is_kept_of_a_key_that_is_gone_when_no_change_is_under_way() -> None:
    kept: ConfirmedMap[Key, int] = ConfirmedMap()
    for end in (kept.confirm, kept.refuse):
        key = Key()
        other = kept.begin({Key(): 1})
        kept.confirm(kept.begin({key: 1}))
        kept.confirm(kept.begin({key: None}))
        held = weakref.ref(key)
        del key
        assert held() is not None, "an older change of it may still be under way"
        end(other)
        assert held() is None
