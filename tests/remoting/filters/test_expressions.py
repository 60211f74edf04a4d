"""Expressions of SQL-92: verdicts of RocketMQ's own filter, bounds, numbers as Java reads them."""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.remoting.errors import MalformedBody
from penstock.remoting.filters.parser import (
    DEPTH_MAX,
    LENGTH_MAX,
    MEMBERS_MAX,
    SEARCHED_CHARS_MAX,
    SEARCHES_MAX,
    TOKENS_MAX,
    parse,
)
from penstock.remoting.filters.values import (
    NUMBER_CHARS_MAX,
    NoVerdict,
    Value,
    order_doubles,
    to_double,
    to_integer,
    to_long,
)
from tests.remoting.filters.generated import Generator
from tests.remoting.filters.kept import KEPT, MESSAGES

LETTERS: Mapping[Value, str] = {True: "T", False: "F", None: "N"}


def verdicts(sql: str, messages: tuple[dict[str, str], ...]) -> str:
    """What an expression says to each message, as in kept.py."""
    try:
        evaluate = parse(sql).part.evaluate
    except MalformedBody:
        return "R"
    told = ""
    for message in messages:
        try:
            told += LETTERS[evaluate(message)]
        except NoVerdict:
            told += "E"
    return told


@pytest.mark.parametrize(("sql", "expected"), KEPT, ids=[sql for sql, _ in KEPT])
def test_an_expression_has_the_verdicts_of_rocketmq(sql: str, expected: str) -> None:
    assert verdicts(sql, MESSAGES) == expected


def test_generated_expressions_are_refused_or_have_a_verdict() -> None:
    generator = Generator(7)
    told = "".join(
        verdicts(generator.expression(), (generator.message(), generator.message()))
        for _ in range(3_000)
    )
    assert min(told.count(letter) for letter in "TFNER") > 100


@given(st.text(max_size=60))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    assert set(verdicts(text, MESSAGES)) <= set("TFNER")


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("a >", "the end stands where a property, a number or a text is expected"),
        ("a = b c @", None),
        ("a = 1 @", "'@' at character 7 begins nothing that is known"),
        ("a = NULL", "NULL is not compared with =, use IS NULL"),
        ("a in ('x', 3)", "IN has texts alone, not 3 at character 12"),
        ("a in 'x'", "'x' at character 6 stands where ( is expected"),
        (
            "a not = 1",
            "= at character 7 stands behind NOT, where BETWEEN, IN or CONTAINS is expected",
        ),
        ("3", "a number or a text stands where a condition is expected"),
        ("a > 'x'", "only numbers and properties are compared with >"),
        ("a > 99999999999999999999", "99999999999999999999 at character 5 is beyond"),
        ("a > 0.0", "0.0 at character 5 is not between the smallest and the largest double"),
        ("a between 3 and 2", "BETWEEN 3 AND 2 has nothing between"),
        ("'x' in ('x')", "only properties may stand before IN"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_where(sql: str, told: str | None) -> None:
    if told is None:
        assert parse(sql)
        return
    with pytest.raises(MalformedBody) as refused:
        parse(sql)
    assert str(refused.value).startswith(told)


def texts(count: int) -> str:
    return "a in (" + ",".join(["''"] * count) + ")"


@pytest.mark.parametrize(
    ("largest", "larger"),
    [
        ("a" * LENGTH_MAX, "a" * (LENGTH_MAX + 1)),
        (" or ".join(["a"] * (TOKENS_MAX // 2)), " or ".join(["a"] * (TOKENS_MAX // 2 + 1))),
        (texts(MEMBERS_MAX), texts(MEMBERS_MAX + 1)),
        (texts(MEMBERS_MAX // 2), f"{texts(MEMBERS_MAX // 2)} or {texts(MEMBERS_MAX // 2 + 1)}"),
        ("(" * DEPTH_MAX + "a" + ")" * DEPTH_MAX, "(" * (DEPTH_MAX + 1) + "a" + ")" * 65),
        ("a" + " is null" * (DEPTH_MAX - 1), "a" + " is null" * DEPTH_MAX),
        ("a = 1" + " = true" * (DEPTH_MAX - 2), "a = 1" + " = true" * (DEPTH_MAX - 1)),
        ("not " * (DEPTH_MAX - 2) + "a", "not " * (DEPTH_MAX - 1) + "a"),
        ("a = " + "-" * DEPTH_MAX + "1", "a = " + "-" * (DEPTH_MAX + 1) + "1"),
        (
            " or ".join(["a contains 'x'"] * SEARCHES_MAX),
            " or ".join(["a not contains 'x'"] * (SEARCHES_MAX + 1)),
        ),
        (
            f"a contains '{'x' * SEARCHED_CHARS_MAX}'",
            f"a contains '{'x' * (SEARCHED_CHARS_MAX + 1)}'",
        ),
        ("a > " + "1." + "0" * (NUMBER_CHARS_MAX - 2), "a > " + "1." + "0" * NUMBER_CHARS_MAX),
    ],
    ids=[
        "length",
        "tokens",
        "in",
        "ins",
        "depth",
        "is-null",
        "equal",
        "not",
        "minus",
        "searches",
        "searched",
        "digits",
    ],
)
def test_the_largest_expression_is_evaluated_and_a_larger_one_refused(
    largest: str, larger: str
) -> None:
    message = {"a": "1", "b": "2"}
    assert parse(largest).part.evaluate(message) in {True, False, None}
    with pytest.raises(MalformedBody):
        parse(larger)


@pytest.mark.parametrize(
    "sql",
    [
        "a in (" + "'x'," * 10**6 + "'x')",
        "(" * 10**6,
        "not " * 4_000,
        "-" * LENGTH_MAX,
        "- " * (LENGTH_MAX // 2) + "\n",
        " " * (LENGTH_MAX - 1) + "@",
        "a /*" * 4_000,
        "'" * (LENGTH_MAX - 1),
        "a = " + "1" * 16_000,
        "a" + " = a" * 4_000,
        "a contains '" + "a" * 16_000 + "'",
        "-- " + "-" * 16_000,
    ],
    ids=lambda sql: sql[:12],
)
def test_what_is_made_to_take_long_is_refused(sql: str) -> None:
    with pytest.raises(MalformedBody):
        parse(sql)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-0", 0),
        ("+7", 7),
        ("007", 7),
        ("2147483647", 2**31 - 1),
        ("-2147483648", -(2**31)),
        ("0" * 30 + "5", 5),
        ("\u0663", 3),
        *((text, None) for text in ("2147483648", "-2147483649", "", "+", "-", "--1", "1_0", " 1")),
        *((text, None) for text in ("1 ", "1.0", "1e3", "5L", "0x1", "\U0001d7db", "1" * 500)),
    ],
)
def test_a_text_is_read_as_java_reads_an_int(text: str, number: int | None) -> None:
    if number is not None:
        assert to_integer(text) == to_long(text) == number
        return
    with pytest.raises(NoVerdict):
        to_integer(text)


def test_a_text_is_read_as_java_reads_a_long() -> None:
    assert to_long("9223372036854775807") == 2**63 - 1
    assert to_long("-9223372036854775808") == -(2**63)
    for text in ("9223372036854775808", "-9223372036854775809", "1" * 25):
        with pytest.raises(NoVerdict):
            to_long(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1.0),
        (" \t1.5\x00", 1.5),
        ("5.", 5.0),
        (".5", 0.5),
        ("-1e-3D", -0.001),
        ("1E400", math.inf),
        ("-1e400f", -math.inf),
        ("0x1.8p1", 3.0),
        ("-0X.8P1d", -1.0),
        ("0x1p9999", math.inf),
        ("-0x1p9999", -math.inf),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        *(
            (text, None)
            for text in ("", ".", "e", "1e", "inf", "nan", "NaNf", "1_0", "0x1", "0xp1")
        ),
        *((text, None) for text in ("\u0663", "1 2", "1f2", "1ff", "--1", "1" * 401)),
    ],
)
def test_a_text_is_read_as_java_reads_a_double(text: str, number: float | None) -> None:
    if number is not None:
        assert to_double(text) == number
        return
    with pytest.raises(NoVerdict):
        to_double(text)


def test_doubles_are_in_a_total_order() -> None:
    ordered = [-math.inf, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, math.inf, math.nan]
    for at, left in enumerate(ordered):
        told = [order_doubles(left, right) for right in ordered]
        assert told == [1] * at + [0] + [-1] * (len(ordered) - at - 1)
    assert to_double("+NaN") != to_double("+NaN"), "it is NaN"
