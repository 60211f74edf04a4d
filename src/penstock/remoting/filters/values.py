"""Values of an expression, and how RocketMQ compares them.

    null      None
    Boolean   bool
    String    str: every property is one
    Integer   int     a literal that fits into 32 bits
    Long      Long    any other whole literal; 64 bits
    Double    float

Where a string meets a number, the string is read as a number of that type, and where it is none the
expression has no verdict: '3.5' can not be compared with the integer 3. Two doubles are in Java's
total order: -0.0 < 0.0, and NaN is equal to itself and above all.

Source: RocketMQ 5.3.3 `ComparisonExpression.__compare`; Java 17 `Integer.parseInt`,
`Double.valueOf`, `Double.compareTo`. Departure: a text of more than NUMBER_CHARS_MAX is no number.
"""

import math
import re
from collections.abc import Callable
from typing import Final

Value = str | bool | int | float | None

NUMBER_CHARS_MAX: Final = 400
"""Of a text that is read as a number. Reading takes the square of the digits, and one property may
have 32 KiB of them; no double needs more than 330 characters in plain notation, and its sign."""
_INT_BITS, _LONG_BITS = 31, 63
_LONG_DIGITS: Final = 19
_BASIC_PLANE_END: Final = "\uffff"
_TRIMMED: Final = "".join(map(chr, range(0x21)))
_DECIMAL: Final = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?", re.ASCII
)
_HEXADECIMAL: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?", re.ASCII
)
_NAMED: Final = {
    sign + name: -value if sign == "-" else value
    for sign in ("", "+", "-")
    for name, value in (("NaN", math.nan), ("Infinity", math.inf))
}


class Long(int):
    """A whole number of 64 bits, where `int` is one of 32."""

    __slots__ = ()


class NoVerdict(Exception):
    """The values of a message can not be compared as the expression says."""


def to_integer(text: str, bits: int = _INT_BITS) -> int:
    """Return the number of a text, as Java reads an int or a long. Raises NoVerdict."""
    digits = text[1:] if text.startswith(("+", "-")) else text
    if not 0 < len(digits) <= NUMBER_CHARS_MAX or not digits.isdecimal():
        raise NoVerdict
    if not digits.isascii() and max(digits) > _BASIC_PLANE_END:
        raise NoVerdict  # Java looks at halves of such a digit
    if len(digits) > _LONG_DIGITS and len(digits.lstrip("0")) > _LONG_DIGITS:
        raise NoVerdict
    number = int(text)
    if not -(1 << bits) <= number < 1 << bits:
        raise NoVerdict
    return number


def to_long(text: str) -> int:
    """Return the number of a text, as Java reads a long. Raises NoVerdict."""
    return to_integer(text, _LONG_BITS)


def to_double(text: str) -> float:
    """Return the number of a text, as Java reads a double. Raises NoVerdict."""
    if len(text) > NUMBER_CHARS_MAX:
        raise NoVerdict
    text = text.strip(_TRIMMED)
    if _DECIMAL.fullmatch(text):
        return float(text.rstrip("fFdD"))
    named = _NAMED.get(text)
    if named is not None:
        return named
    if not _HEXADECIMAL.fullmatch(text):
        raise NoVerdict
    try:
        return float.fromhex(text.rstrip("fFdD"))
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def to_boolean(text: str) -> bool:
    """Return whether a text is `true`, in any case."""
    return text.lower() == "true"


READ_AS: Final[dict[type, Callable[[str], int | float]]] = {
    int: to_integer,
    Long: to_long,
    float: to_double,
}
"""How a text is read that is compared with a number of this type."""


def order_doubles(left: float, right: float) -> int:
    """Return -1, 0 or 1 in Java's total order of doubles."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left != right:
        return (left != left) - (right != right)  # noqa: PLR0124  what is not equal to itself is NaN
    if left:
        return 0
    signs = math.copysign(1, left), math.copysign(1, right)
    return (signs[0] > signs[1]) - (signs[0] < signs[1])


def compare(left: str | float, right: str | float) -> int:
    """Return -1, 0 or 1; -1 as well for values that have no order. Raises NoVerdict.

    Two strings are not compared here: as numbers they are doubles, and to be equal they are texts.
    """
    if isinstance(left, str):
        assert not isinstance(right, str), right
        left = to_boolean(left) if isinstance(right, bool) else READ_AS[type(right)](left)
    elif isinstance(right, str):
        if isinstance(left, bool):
            raise NoVerdict  # RocketMQ fails on it; the other way round it reads the string
        right = READ_AS[type(left)](right)
    elif isinstance(left, bool) != isinstance(right, bool):
        return -1
    if isinstance(left, float) or isinstance(right, float):
        return order_doubles(float(left), float(right))
    return (left > right) - (left < right)
