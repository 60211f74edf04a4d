"""The parts of an expression, each compiled to one function over the properties of a message.

    PROPERTY    a name: the property's text, or null
    CONSTANT    a literal; TRUE, FALSE and NULL are conditions as well
    NEGATED     minus something: a number, or null for what is none
    CONDITION   everything else: true, false or null

What a part may not be made of is refused when it is made. Null is not false: it goes through NOT,
AND and OR as SQL has it, but `a = b` with one null side is null only if that is the left one, and
CONTAINS and its kin are false for null, negated or not.

Source: RocketMQ 5.3.3 `ComparisonExpression`, `LogicExpression`, `UnaryExpression`,
`UnaryInExpression`, `PropertyExpression`. Chains of AND and of OR are one part here, with the same
verdicts, so that their evaluation is a loop.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from penstock.remoting.errors import MalformedBody
from penstock.remoting.filters.values import (
    READ_AS,
    Long,
    Value,
    compare,
    order_doubles,
    to_double,
)

Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Value]


class Role(Enum):
    """What a part is; see the module."""

    PROPERTY = "property"
    CONSTANT = "constant"
    NEGATED = "negated"
    CONDITION = "condition"


class Part(NamedTuple):
    """One part. `known` is a property's name, or a number or constant that no message changes."""

    role: Role
    evaluate: Evaluate
    known: Value = None
    height: int = 1
    """Calls within calls that its evaluation takes."""

    @property
    def is_condition(self) -> bool:
        """Whether it is one without more ado."""
        is_constant = self.role is Role.CONSTANT
        return self.role is Role.CONDITION or (is_constant and type(self.known) in _OF_CONDITIONS)


_OF_CONDITIONS: Final = (bool, type(None))
_NUMBERS: Final = (int, Long, float)
_TESTS: Final[dict[str, Callable[[int, int], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}


def property_of(name: str) -> Part:
    """Return the part for a property."""
    return Part(Role.PROPERTY, lambda properties: properties.get(name), name)


def constant(value: Value) -> Part:
    """Return the part for a literal."""
    return Part(Role.CONSTANT, lambda _: value, value)


def condition(part: Part) -> Part:
    """Return a part as a condition. Raises MalformedBody.

    A property by itself is never true, since it is a text; it is null where it is missing.
    """
    if part.is_condition:
        return part
    if part.role is not Role.PROPERTY:
        raise MalformedBody("a number or a text stands where a condition is expected")
    evaluate = part.evaluate
    return _condition(lambda properties: None if evaluate(properties) is None else False, part)


def negated(part: Part) -> Part:
    """Return minus a part."""
    evaluate, known = part.evaluate, part.known
    if part.role is not Role.PROPERTY and type(known) in _NUMBERS:
        number = _minus(known)
        return Part(Role.NEGATED, lambda _: number, number, part.height)
    return Part(
        Role.NEGATED, lambda properties: _minus(evaluate(properties)), None, part.height + 1
    )


def inverted(part: Part) -> Part:
    """Return NOT a part. Raises MalformedBody."""
    part = condition(part)
    evaluate = part.evaluate

    def run(properties: Properties) -> Value:
        value = evaluate(properties)
        return None if value is None else not value

    return _condition(run, part)


def all_of(parts: Sequence[Part]) -> Part:
    """Return the AND of conditions. Raises MalformedBody."""
    return _joined(parts, decisive=False)


def any_of(parts: Sequence[Part]) -> Part:
    """Return the OR of conditions. Raises MalformedBody."""
    return _joined(parts, decisive=True)


def _joined(parts: Sequence[Part], *, decisive: bool) -> Part:
    """Return what is `decisive` as soon as one condition is; unknown if none is and one unknown."""
    conditions = [condition(part) for part in parts]
    each = tuple(part.evaluate for part in conditions)

    def run(properties: Properties) -> Value:
        verdict: bool | None = not decisive
        for evaluate in each:
            value = evaluate(properties)
            if value is decisive:
                return decisive
            if value is None:
                verdict = None
        return verdict

    return _condition(run, *conditions)


def equal(left: Part, right: Part) -> Part:
    """Return `left = right`. Raises MalformedBody."""
    for part in (left, right):
        if part.role is Role.CONSTANT and part.known is None:
            raise MalformedBody("NULL is not compared with =, use IS NULL")
    are_constant = left.role is right.role is Role.CONSTANT
    if are_constant and left.is_condition and not right.is_condition:
        raise MalformedBody("TRUE and FALSE are not compared with numbers and texts")
    if left.role is Role.PROPERTY and right.role is Role.CONSTANT and type(right.known) is str:
        return _equal_to_text(left, right.known)
    first, second = left.evaluate, right.evaluate

    def run(properties: Properties) -> Value:
        one, other = first(properties), second(properties)
        if one is None:
            return True if other is None else None
        if other is None:
            return False
        if type(one) is type(other) is str:
            return one == other
        return compare(one, other) == 0

    return _condition(run, left, right)


def _equal_to_text(part: Part, text: str) -> Part:
    """Return the commonest comparison of all."""
    name = str(part.known)

    def run(properties: Properties) -> Value:
        value = properties.get(name)
        return None if value is None else value == text

    return _condition(run, part)


def is_null(part: Part) -> Part:
    """Return `part IS NULL`, which is never null itself."""
    evaluate = part.evaluate
    return _condition(lambda properties: evaluate(properties) is None, part)


def ordered(sign: str, left: Part, right: Part) -> Part:
    """Return `left sign right`, a sign being < <= > >=. Raises MalformedBody."""
    for part in (left, right):
        if part.is_condition or (part.role is Role.CONSTANT and type(part.known) not in _NUMBERS):
            raise MalformedBody(f"only numbers and properties are compared with {sign}")
    test = _TESTS[sign]
    if left.role is Role.PROPERTY and right.role is not Role.PROPERTY and right.known is not None:
        return _ordered_to_number(test, left, right)
    first, second = left.evaluate, right.evaluate

    def run(properties: Properties) -> Value:
        one = first(properties)
        if one is None:
            return None
        other = second(properties)
        if other is None:
            return None
        if isinstance(one, str) and isinstance(other, str):
            return test(order_doubles(to_double(one), to_double(other)), 0)
        return test(compare(one, other), 0)

    return _condition(run, left, right)


def _ordered_to_number(test: Callable[[int, int], bool], left: Part, right: Part) -> Part:
    """Return the comparison of a property with a number that is known."""
    name, number = str(left.known), right.known
    assert not isinstance(number, str | None), number
    read = READ_AS[type(number)]
    is_whole = not isinstance(number, float)

    def run(properties: Properties) -> Value:
        text = properties.get(name)
        if text is None:
            return None
        value = read(text)
        order = (value > number) - (value < number) if is_whole else order_doubles(value, number)
        return test(order, 0)

    return _condition(run, left, right)


def between(part: Part, low: Part, high: Part) -> Part:
    """Return `part BETWEEN low AND high`, both included. Raises MalformedBody."""
    both = all_of([ordered(">=", part, low), ordered("<=", part, high)])
    first, last = _fixed(low), _fixed(high)
    if first is not None and last is not None and compare(first, last) > 0:
        raise MalformedBody(f"BETWEEN {first} AND {last} has nothing between")
    return both


def _fixed(part: Part) -> int | float | None:
    """Return the number of a literal that stands by itself."""
    known = part.known
    return known if part.role is Role.CONSTANT and isinstance(known, int | float) else None


def not_between(part: Part, low: Part, high: Part) -> Part:
    """Return `part NOT BETWEEN low AND high`. Raises MalformedBody."""
    return any_of([ordered("<", part, low), ordered(">", part, high)])


def among(part: Part, texts: Sequence[str], *, is_not: bool = False) -> Part:
    """Return `part IN (texts)` or NOT IN. Raises MalformedBody for all but properties."""
    if part.role is not Role.PROPERTY:
        raise MalformedBody("only properties may stand before IN")
    name, wanted = str(part.known), frozenset(texts)

    def run(properties: Properties) -> Value:
        value = properties.get(name)
        return None if value is None else (value in wanted) is not is_not

    return _condition(run, part)


_SEARCHES: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def searched(word: str, part: Part, text: str, *, is_not: bool = False) -> Part:
    """Return `part word text` or its negation: false for an empty text, and for what is no text."""
    find, evaluate = _SEARCHES[word], part.evaluate
    if not text:
        return _condition(lambda _: False, part)

    def run(properties: Properties) -> Value:
        value = evaluate(properties)
        return isinstance(value, str) and find(value, text) is not is_not

    return _condition(run, part)


def _minus(value: Value) -> Value:
    """Return minus a number, of the same type; null for what is none."""
    if type(value) is Long:
        return Long(-value)
    return -value if type(value) in (int, float) else None  # type: ignore[operator]


def _condition(evaluate: Evaluate, *parts: Part) -> Part:
    return Part(Role.CONDITION, evaluate, height=1 + max(part.height for part in parts))
