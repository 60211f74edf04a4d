"""Filters by tags and by expressions, and the expressions that are kept compiled."""

import gc
import tracemalloc

import pytest

from penstock.remoting.errors import MalformedBody
from penstock.remoting.filters.compiled import CompiledExpressions
from penstock.remoting.filters.verdicts import Verdict
from penstock.remoting.subscription import TAGS_MAX, TagFilter, read_filter

LARGEST = {
    "or": " or ".join(["a"] * 1_024),
    "between": " or ".join(["a between b and b"] * 340),
    "equal": " and ".join(f"a{n} = 'x{n}'" for n in range(500)),
    "in": "a in (" + ",".join(f"'{n}'" for n in range(2_000)) + ")",
    "long in": "a in (" + ",".join(f"'{n:036}'" for n in range(400)) + ")",
    "contains": " or ".join([f"a contains '{'x' * 99}'"] * 64),
    "short": "a = 1",
    "comment": "a = 1 /*" + "x" * 16_000 + "*/",
}


@pytest.mark.parametrize(
    ("expression", "tags"),
    [
        ("*", None),
        ("", None),
        ("a", {"a"}),
        (" a || b||  ||c d", {"a", "b", "c d"}),
        ("a|b", {"a|b"}),
        ("a || *", {"a", "*"}),
    ],
)
@pytest.mark.parametrize("kind", ["TAG", ""])
def test_expressions_are_tags(expression: str, kind: str, tags: set[str] | None) -> None:
    found = read_filter(expression, kind, CompiledExpressions())
    assert isinstance(found, TagFilter)
    assert found.tags == tags


def test_a_filter_wants_its_tags_exactly() -> None:
    texts = "AaAa", "BBBB", "b", ""
    messages = [*({"TAGS": text} for text in texts), {}]
    everything, some = TagFilter(), read_filter("AaAa || b", "TAG", CompiledExpressions())
    assert {everything.judge()(one) for one in messages} == {Verdict.WANTED}
    wanted = [some.judge()(one) is Verdict.WANTED for one in messages]
    assert wanted == [True, False, True, False, False], "AaAa and BBBB have one hash code in Java"
    assert some.judge()({}) is Verdict.TAG


def test_an_expression_wants_what_it_is_true_for() -> None:
    found = read_filter("a > 3 or b is null", "SQL92", CompiledExpressions())
    verdicts = [found.judge()(one) for one in ({}, {"a": "3", "b": ""}, {"a": "x"}, {"b": ""})]
    assert verdicts == [Verdict.WANTED, Verdict.SQL, Verdict.SQL_ERROR, Verdict.SQL]


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("a >", "SQL92"),
        ("", "SQL92"),
        ("a", "SQL"),
        ("a", "sql92"),
        ("||", "TAG"),
        ("||".join(map(str, range(TAGS_MAX + 1))), "TAG"),
    ],
)
def test_other_expressions_are_malformed(expression: str, kind: str) -> None:
    with pytest.raises(MalformedBody):
        read_filter(expression, kind, CompiledExpressions())


@pytest.mark.parametrize("text", LARGEST.values(), ids=list(LARGEST))
def test_a_compiled_expression_takes_no_more_memory_than_is_counted(text: str) -> None:
    compiled = CompiledExpressions(1 << 30)
    compiled.get("warm = 'up' or a between 1 and 2 or a contains 'b' or a in ('c')")
    before = compiled.bytes_now
    gc.collect()
    tracemalloc.start()
    compiled.get(text)
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    counted = compiled.bytes_now - before
    assert taken <= counted <= 20 * taken + 150_000


def test_expressions_that_are_not_used_make_room_for_others() -> None:
    of_one = CompiledExpressions()
    of_one.get("a0 = 1")
    compiled = CompiledExpressions(3 * of_one.bytes_now)
    first = compiled.get("a0 = 1")
    for n in (1, 2):
        compiled.get(f"a{n} = 1")
    assert compiled.get("a0 = 1") is first
    compiled.get("a3 = 1")
    assert compiled.count == 3
    assert compiled.bytes_now == compiled.bytes_max
    assert compiled.get("a0 = 1") is first, "it was used after a1"
    for n in (0, 3, 1, 2, 9):
        assert compiled.get(f"a{n} = 1").judge({f"a{n}": "1"}) is Verdict.WANTED
        assert compiled.bytes_now <= compiled.bytes_max


def test_an_expression_that_has_no_room_at_all_is_used_all_the_same() -> None:
    compiled = CompiledExpressions(100)
    assert compiled.get("a = 1").judge({"a": "1"}) is Verdict.WANTED
    assert (compiled.count, compiled.bytes_now) == (0, 0)


def test_a_refused_expression_is_not_kept() -> None:
    compiled = CompiledExpressions()
    with pytest.raises(MalformedBody):
        compiled.get("a >")
    assert (compiled.count, compiled.bytes_now) == (0, 0)
