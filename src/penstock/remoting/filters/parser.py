"""Expressions of SQL-92, from their text to a part that gives the verdict.

    or          and (OR and)*
    and         equality (AND equality)*
    equality    comparison (= comparison | <> comparison | IS NULL | IS NOT NULL)*
    comparison  unary (> unary | >= unary | < unary | <= unary
                      | [NOT] BETWEEN unary AND unary | [NOT] IN (text, …)
                      | [NOT] CONTAINS text | [NOT] STARTSWITH text | [NOT] ENDSWITH text)*
    unary       (+ | - | NOT)* primary, so NOT a = 1 is (NOT a) = 1
    primary     text, number, TRUE, FALSE, NULL, name, (or)

It ends where nothing goes on: what follows is not looked at, beyond its first token.

Each step is a bound: an expression is compiled, and a message judged, in a part of a loop's turn.
RocketMQ has the stack of a Java thread in their place.

Source: RocketMQ 5.3.3 `SelectorParser.jj`, `ConstantExpression.createFromDecimal`, `createFloat`.
"""

from typing import Final, NamedTuple

from penstock.remoting.errors import MalformedBody
from penstock.remoting.filters import lexer, parts
from penstock.remoting.filters.lexer import DOUBLE, INTEGER, TEXT, Lexer, Token
from penstock.remoting.filters.parts import Part
from penstock.remoting.filters.values import NUMBER_CHARS_MAX, Long

LENGTH_MAX: Final = 16 << 10
"""Characters of an expression: an IN with 400 ids of 36 characters."""
TOKENS_MAX: Final = 2_048
"""Tokens beside the texts of IN: 500 comparisons and what joins them."""
MEMBERS_MAX: Final = 2_000
"""Texts of IN."""
DEPTH_MAX: Final = 64
"""Parentheses within parentheses, signs before an operand, and parts within parts."""
SEARCHES_MAX: Final = 64
"""CONTAINS in an expression: each may go through 32 KiB of a message."""
SEARCHED_CHARS_MAX: Final = 99
"""Of the text behind CONTAINS: the search for a longer one may take the product of both lengths."""
_LONG_MAX: Final = (1 << 63) - 1
_INTEGER_MAX: Final = (1 << 31) - 1
_SMALLEST: Final = 5e-324
_CONSTANTS: Final = {"TRUE": True, "FALSE": False, "NULL": None}


class Parsed(NamedTuple):
    """An expression as one condition, and what it is made of."""

    part: Part
    tokens: int
    """Without the texts of IN."""
    searches: int
    members: int
    """Texts of IN."""


def parse(text: str) -> Parsed:
    """Return an expression. Raises MalformedBody, which says what is wrong and where."""
    if len(text) > LENGTH_MAX:
        raise MalformedBody(f"an expression of {len(text)} characters, {LENGTH_MAX} are possible")
    parser = _Parser(text)
    part = parts.condition(parser.either())
    return Parsed(part, parser.tokens, parser.searches, parser.members)


class _Parser:
    """Reads one text."""

    def __init__(self, text: str) -> None:
        self._lexer = Lexer(text)
        self.tokens = self.searches = self.members = 0
        self._depth = 0
        self._now = self._lexer.following()

    def either(self) -> Part:
        """Read an expression of the loosest kind."""
        found = [self._both()]
        while self._taken("OR"):
            found.append(self._both())
        return found[0] if len(found) == 1 else self._made(parts.any_of(found))

    def _both(self) -> Part:
        found = [self._equality()]
        while self._taken("AND"):
            found.append(self._equality())
        return found[0] if len(found) == 1 else self._made(parts.all_of(found))

    def _equality(self) -> Part:
        left = self._comparison()
        while self._now.kind in {"=", "<>", "IS"}:
            sign = self._take().kind
            if sign == "IS":
                is_not = self._taken("NOT")
                self._expect("NULL")
                left = parts.is_null(left)
            else:
                is_not = sign == "<>"
                left = parts.equal(left, self._comparison())
            left = self._made(parts.inverted(left) if is_not else left)
        return left

    def _comparison(self) -> Part:
        left = self._unary()
        while True:
            token = self._now
            match token.kind:
                case ">" | ">=" | "<" | "<=":
                    self._take()
                    left = parts.ordered(token.kind, left, self._unary())
                case "NOT":
                    self._take()
                    left = self._worded(left, is_not=True)
                case "BETWEEN" | "IN" | "CONTAINS" | "STARTSWITH" | "ENDSWITH":
                    left = self._worded(left, is_not=False)
                case _:
                    return left
            left = self._made(left)

    def _worded(self, left: Part, *, is_not: bool) -> Part:
        """Read what follows an operand and begins with a word."""
        token = self._take()
        match token.kind:
            case "BETWEEN":
                low = self._unary()
                self._expect("AND")
                made = parts.not_between if is_not else parts.between
                return made(left, low, self._unary())
            case "IN":
                return parts.among(left, self._texts(), is_not=is_not)
            case "CONTAINS" | "STARTSWITH" | "ENDSWITH":
                text = self._text(self._expect(TEXT))
                if token.kind == "CONTAINS":
                    self._check_search(text)
                return parts.searched(token.kind, left, text, is_not=is_not)
            case _:
                told = "where BETWEEN, IN or CONTAINS is expected"
                raise MalformedBody(f"{token} stands behind NOT, {told}")

    def _check_search(self, text: str) -> None:
        self.searches += 1
        if len(text) > SEARCHED_CHARS_MAX or self.searches > SEARCHES_MAX:
            told = f"{SEARCHED_CHARS_MAX} characters behind each, and {SEARCHES_MAX} of them"
            raise MalformedBody(f"too much for CONTAINS: {told} are possible")

    def _texts(self) -> list[str]:
        """Read the texts of IN, with their parentheses."""
        self._expect("(")
        texts = [self._text(self._expect(TEXT))]
        while self._now.kind == ",":
            self._now = self._lexer.following()
            if self._now.kind != TEXT:
                raise MalformedBody(f"IN has texts alone, not {self._now}")
            texts.append(self._text(self._now))
            self._now = self._lexer.following()
            self._check_members(len(texts))
        self._expect(")")
        self.members += len(texts)
        return texts

    def _check_members(self, count: int) -> None:
        if self.members + count > MEMBERS_MAX:
            raise MalformedBody(f"more than {MEMBERS_MAX} texts of IN")

    def _unary(self) -> Part:
        signs: list[str] = []
        while self._now.kind in {"+", "-", "NOT"}:
            signs.append(self._take().kind)
            if len(signs) > DEPTH_MAX:
                raise MalformedBody(f"more than {DEPTH_MAX} signs before an operand")
        part = self._primary()
        for sign in reversed(signs):
            if sign == "-":
                part = parts.negated(part)
            elif sign == "NOT":
                part = parts.inverted(part)
        return self._made(part)

    def _primary(self) -> Part:
        token = self._take()
        match token.kind:
            case lexer.NAME:
                return parts.property_of(token.text)
            case lexer.TEXT:
                return parts.constant(self._text(token))
            case lexer.INTEGER | lexer.DOUBLE:
                return parts.constant(_number(token))
            case "TRUE" | "FALSE" | "NULL":
                return parts.constant(_CONSTANTS[token.kind])
            case "(":
                return self._parenthesised()
            case _:
                told = "where a property, a number or a text is expected"
                raise MalformedBody(f"{token} stands {told}")

    def _parenthesised(self) -> Part:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise MalformedBody(f"more than {DEPTH_MAX} parentheses within each other")
        part = self.either()
        self._expect(")")
        self._depth -= 1
        return part

    def _text(self, token: Token) -> str:
        return token.text[1:-1].replace("''", "'")

    def _made(self, part: Part) -> Part:
        if part.height > DEPTH_MAX:
            raise MalformedBody(f"more than {DEPTH_MAX} conditions within each other")
        return part

    def _taken(self, kind: str) -> bool:
        """Whether the next token is this; it is taken then."""
        if self._now.kind != kind:
            return False
        self._take()
        return True

    def _expect(self, kind: str) -> Token:
        if self._now.kind != kind:
            raise MalformedBody(f"{self._now} stands where {kind} is expected")
        return self._take()

    def _take(self) -> Token:
        """Take the next token, and read the one behind it."""
        token = self._now
        self.tokens += 1
        if self.tokens > TOKENS_MAX:
            raise MalformedBody(f"more than {TOKENS_MAX} words and signs")
        self._now = self._lexer.following()
        return token


def _number(token: Token) -> int | float:
    """Return the number of a literal. Raises MalformedBody."""
    if len(token.text) > NUMBER_CHARS_MAX:
        raise MalformedBody(f"a number of {len(token.text)} characters")
    if token.kind == INTEGER:
        whole = int(token.text.rstrip("lL"))
        if whole > _LONG_MAX:
            raise MalformedBody(f"{token} is beyond {_LONG_MAX}")
        return whole if whole <= _INTEGER_MAX else Long(whole)
    assert token.kind == DOUBLE, token
    number = float(token.text)
    if not _SMALLEST <= number < float("inf"):
        raise MalformedBody(f"{token} is not between the smallest and the largest double; 0 is 0")
    return number
