"""Expressions and messages by chance, of a seed: what people write, what is refused, and what is
cut, doubled and put together wrongly."""

import random

NAMES = ("a", "b", "c", "TAGS", "missing", "_x$9", "nota", "A")
TEXTS = ("", "x", "tag", "it''s", "3", "true", "äö", "日本", "🐫", "a b", "--", "/*", "x'' or ''")
INTEGERS = ("0", "1", "3", "10", "2147483647", "2147483648", "4294967296L", "7l")
LARGE = ("9223372036854775807", "9223372036854775808", "99999999999999999999", "007", "0L", "5L.5")
DOUBLES = ("3.0", "0.5", ".5", "5.", "1e3", "3E-1", "2147483648.5", "0.0", "1e999", "1e-400", "1e")
CONSTANTS = ("TRUE", "false", "NULL", "True")
SIGNS = ("=", "<>", ">", ">=", "<", "<=")
WORDS = ("CONTAINS", "startswith", "EndsWith")
BLANKS = (" ", " ", " ", "\n", "\t", "  ", " /* c */ ", " -- c\n", "\f", "\r\n")
ODD = ("(", ")", ",", "'", "@", "!", "!=", "==", "--", "/*", "*/", ".", "%", "\\", '"', "é", "\0")
VALUES = (
    *("", "x", "tag", "it's", "äö", "日本語", "🐫🐫", "a b", "true", "TRUE", "tRue", "false", "--"),
    *(
        "0",
        "1",
        "3",
        "10",
        "-3",
        "+3",
        "03",
        "3.0",
        "3.5",
        " 3",
        "3 ",
        "3\t",
        "1_0",
        "0x10",
        "\uff13",
    ),
    *("2147483647", "2147483648", "-2147483648", "-2147483649", "4294967296", "0000000003"),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "1" * 25,
        "0" * 25 + "3",
    ),
    *("NaN", "-NaN", "nan", "Infinity", "-Infinity", "inf", "-0.0", "0.0", "-0", "1e3", "1E400"),
    *("1e-400", ".5", "5.", "5.f", "5d", "5L", ".", "+", "-", "e", "1e", "1e+", "0x1p3", "0x.8p1d"),
    *(
        "0x1p9999",
        "-0X1.8P1F",
        "0x1",
        "0xp3",
        "٣",
        "٣.5",
        "\U0001d7db",
        "1" * 390,
        "0." + "1" * 300,
    ),
)


class Generator:
    """One stream of expressions and messages."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def expression(self) -> str:
        """Return an expression; more than half are refused."""
        text = self._either(self._random.randrange(4))
        chance = self._random.random()
        if chance < 0.1:
            text = self._spoilt(text)
        elif chance < 0.15:
            text += self._blank() + self._random.choice((*NAMES, *ODD, "1", "''", "= 1"))
        return text

    def message(self) -> dict[str, str]:
        """Return the properties of a message."""
        names = [name for name in NAMES if name != "missing" and self._random.random() < 0.7]
        return {name: self._random.choice(VALUES) for name in names}

    def _either(self, depth: int) -> str:
        joined = self._both(depth)
        while self._random.random() < 0.25:
            joined += self._word(" or ", " OR ") + self._both(depth)
        return joined

    def _both(self, depth: int) -> str:
        joined = self._equality(depth)
        while self._random.random() < 0.25:
            joined += self._word(" and ", " AND ") + self._equality(depth)
        return joined

    def _equality(self, depth: int) -> str:
        left = self._comparison(depth)
        chance = self._random.random()
        if chance < 0.25:
            return left + self._random.choice(("=", " = ", "<>", " <> ")) + self._comparison(depth)
        if chance < 0.4:
            return left + self._word(" is null", " IS NOT NULL", " Is Not Null", " is null is null")
        return left

    def _comparison(self, depth: int) -> str:
        left, chance = self._unary(depth), self._random.random()
        word = self._word(" ", " not ", " NOT ")
        if chance < 0.3:
            return left + self._random.choice(SIGNS) + self._unary(depth)
        if chance < 0.45:
            return left + f"{word}between {self._unary(depth)} and {self._unary(depth)}"
        if chance < 0.6:
            texts = [self._text() for _ in range(self._random.randint(1, 6))]
            return left + f"{word}in ({(self._blank() + ',').join(texts)})"
        if chance < 0.72:
            return left + word + self._random.choice(WORDS) + self._blank() + self._text()
        return left

    def _unary(self, depth: int) -> str:
        chance = self._random.random()
        if chance < 0.08:
            return self._word("not ", "NOT ", "not not ") + self._unary(depth)
        if chance < 0.18:
            return self._random.choice(("-", "+", "- ", "+ -", "- -")) + self._unary(depth)
        return self._primary(depth)

    def _primary(self, depth: int) -> str:
        chance = self._random.random()
        if depth and chance < 0.25:
            return "(" + self._either(depth - 1) + ")"
        if chance < 0.65:
            return self._random.choice(NAMES)
        if chance < 0.78:
            return self._random.choice(INTEGERS if chance < 0.775 else LARGE)
        if chance < 0.84:
            return self._random.choice(DOUBLES)
        return self._text() if chance < 0.93 else self._random.choice(CONSTANTS)

    def _text(self) -> str:
        return f"'{self._random.choice(TEXTS)}'"

    def _word(self, *words: str) -> str:
        return self._random.choice(words).replace(" ", self._blank())

    def _blank(self) -> str:
        return self._random.choice(BLANKS)

    def _spoilt(self, text: str) -> str:
        at, end = sorted(self._random.randrange(len(text) + 1) for _ in range(2))
        kind = self._random.randrange(4)
        if kind == 0:
            return text[:at] + text[end:]
        if kind == 1:
            return text[:at] + self._random.choice(ODD) + text[at:]
        return text[:end] + text[at:] if kind == 2 else text[:at]
