"""A filter finds what the specification says, read aloud part by part."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.quotas.entities import QuotaEntity, entity_of
from penstock.quotas.errors import InvalidQuota, UnknownEntityKind
from penstock.quotas.filters import Component, Match, filter_of

NAMES = st.sampled_from(["a", "b"])
KINDS = st.sampled_from([["user"], ["client-id"], ["user", "client-id"]])


@st.composite
def entities(draw: st.DrawFn) -> QuotaEntity:
    return entity_of((kind, draw(st.none() | NAMES)) for kind in draw(KINDS))


@st.composite
def components(draw: st.DrawFn) -> list[Component]:
    found: list[Component] = []
    for kind in draw(st.just(list[str]()) | KINDS):
        match = draw(st.sampled_from(Match))
        found.append(Component(kind, match, draw(NAMES) if match is Match.EXACT else None))
    return draw(st.permutations(found))


def is_found(entity: QuotaEntity, asked: list[Component], *, is_strict: bool) -> bool:
    parts = {str(part.kind): part.name for part in entity}
    for kind, match, name in asked:
        if kind not in parts:
            return False
        if match == Match.EXACT and parts[kind] != name:
            return False
        if match == Match.DEFAULT and parts[kind] is not None:
            return False
    return not is_strict or parts.keys() == {one.kind for one in asked}


@given(entities(), components(), st.booleans())
def test_a_filter_finds_an_entity_whose_every_part_fits(
    entity: QuotaEntity, asked: list[Component], is_strict: bool
) -> None:
    found = filter_of(asked, is_strict=is_strict).matches(entity)
    assert found is is_found(entity, asked, is_strict=is_strict)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ([("", Match.DEFAULT, None)], "empty entity type"),
        ([("user", Match.EXACT, "a"), ("user", Match.DEFAULT, None)], "more than once"),
        ([("user", Match.SPECIFIED, None), ("user", Match.EXACT, "a")], "more than once"),
        ([("user", Match.SPECIFIED, None), ("user", Match.SPECIFIED, None)], "more than once"),
        ([("ip", Match.DEFAULT, None), ("user", Match.DEFAULT, None)], "IP filter component"),
        ([("client-id", Match.SPECIFIED, None), ("ip", Match.EXACT, "1.1.1.1")], "IP filter"),
        ([("user", Match.EXACT, None)], "MATCH_TYPE_EXACT, but set match string to null"),
        ([("user", Match.DEFAULT, "a")], "MATCH_TYPE_DEFAULT, but also specified"),
        ([("user", Match.SPECIFIED, "a")], "MATCH_TYPE_SPECIFIED, but also specified"),
        ([("user", 3, None)], "Unknown match type 3"),
        ([("user", -1, "a")], "Unknown match type -1"),
    ],
)
def test_a_filter_that_contradicts_itself_says_how(
    asked: list[tuple[str, int, str | None]], why: str
) -> None:
    with pytest.raises(InvalidQuota, match=re.escape(why)):
        filter_of([Component(*one) for one in asked], is_strict=False)


def test_a_kind_that_is_not_known_is_named() -> None:
    with pytest.raises(UnknownEntityKind, match="Custom entity type group not supported"):
        filter_of([Component("group", Match.DEFAULT)], is_strict=False)


@pytest.mark.parametrize(
    ("asked", "kept"),
    [("0:0::1", "::1"), ("::ffff:10.0.0.1", "10.0.0.1"), ("10.0.0.1", "::ffff:10.0.0.1")],
)
def test_an_address_is_found_however_it_is_written(asked: str, kept: str) -> None:
    found = filter_of([Component("ip", Match.EXACT, asked)], is_strict=True)
    assert found.matches(entity_of([("ip", kept)]))
    assert not found.matches(entity_of([("ip", "10.0.0.2")]))


def test_what_is_no_address_is_no_error_and_finds_nothing() -> None:
    found = filter_of([Component("ip", Match.EXACT, "localhost")], is_strict=True)
    assert not found.matches(entity_of([("ip", "127.0.0.1")]))


@pytest.mark.parametrize("match", Match)
def test_an_address_alone_is_asked_for_in_each_way(match: Match) -> None:
    name = "10.0.0.1" if match is Match.EXACT else None
    asked = filter_of([Component("ip", match, name)], is_strict=True)
    found = [asked.matches(entity_of([("ip", one)])) for one in ("10.0.0.1", "10.0.0.2", None)]
    assert (
        found
        == {
            Match.EXACT: [True, False, False],
            Match.DEFAULT: [False, False, True],
            Match.SPECIFIED: [True, True, True],
        }[match]
    )
