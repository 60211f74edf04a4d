"""The tokens of an SQL-92 expression, read one by one as the parser asks for them.

    names      ASCII letters, digits, _ and $; not first a digit. Keywords are names in any case
    integers   0, or digits that do not begin with 0, and maybe an L
    doubles    1.5  1.  .5  1e5, with an exponent or without
    texts      'it''s'
    signs      = <> > >= < <= ( , ) + -
    skipped    blanks, tabs, line ends, form feeds; /* comments */, and -- comments with a line end

Where a token could be longer it is: `007` are three integers, and `5L.5` are two numbers. What
stands behind the end of an expression is not read, so it may be anything.

Source: RocketMQ 5.3.3 `SelectorParser.jj`.
"""

import re
from typing import Final, NamedTuple

from penstock.remoting.errors import MalformedBody

KEYWORDS: Final = frozenset(
    {
        *("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS"),
        *("CONTAINS", "STARTSWITH", "ENDSWITH"),
    }
)
NAME, INTEGER, DOUBLE, TEXT, SIGN, END = "name", "integer", "double", "text", "sign", "end"
_BLANKS: Final = re.compile(r"[ \t\n\r\f]+")
_COMMENT: Final = re.compile(r"--[^\n\r]*(?:\r\n|\n|\r)")
_TOKEN: Final = re.compile(
    r"(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)"
    r"|(?P<double>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<integer>0|[1-9][0-9]*[lL]?)"
    r"|(?P<text>'[^']*(?:''[^']*)*')"
    r"|(?P<sign><>|>=|<=|[=<>(),+-])"
)
_SHOWN_CHARS: Final = 20


class Token(NamedTuple):
    """One token; the kind of a keyword or a sign is itself, keywords in capitals."""

    kind: str
    text: str
    at: int

    def __str__(self) -> str:
        if self.kind is END:
            return "the end"
        shown = self.text[:_SHOWN_CHARS] + ("…" if len(self.text) > _SHOWN_CHARS else "")
        return f"{shown} at character {self.at + 1}"


class Lexer:
    """Reads a text from its beginning."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line_end = max(text.rfind("\n"), text.rfind("\r"))
        """The last one. Without it each of many dashes would look for its own."""

    def following(self) -> Token:
        """Return the next token. Raises MalformedBody where there is none."""
        self._skip()
        at = self._at
        if at == len(self._text):
            return Token(END, "", at)
        found = _TOKEN.match(self._text, at)
        if found is None:
            shown = self._text[at : at + 1]
            raise MalformedBody(f"{shown!r} at character {at + 1} begins nothing that is known")
        self._at = found.end()
        kind, text = str(found.lastgroup), found[0]
        if kind == SIGN:
            kind = text
        elif kind == NAME and text.upper() in KEYWORDS:
            kind = text.upper()
        return Token(kind, text, at)

    def _skip(self) -> None:
        while True:
            begun = self._at
            for skipped in (_BLANKS, _COMMENT) if begun < self._line_end else (_BLANKS,):
                found = skipped.match(self._text, self._at)
                self._at = self._at if found is None else found.end()
            if self._text.startswith("/*", self._at):
                end = self._text.find("*/", self._at + 2)
                self._at = self._at if end < 0 else end + 2
            if self._at == begun:
                return
