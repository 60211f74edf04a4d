"""Rules that make a short name of the subject of a certificate.

    RULE:^CN=(.*?),.*$/$1/L,RULE:^UID=(.*)$/$1/,DEFAULT

The first rule whose pattern matches the whole name counts: its replacement, in lower (L) or upper
(U) case where it says so; DEFAULT is the name as it is. Without rules the name stays as it is; with
rules of which none matches the client is refused.

Source: Kafka `SslPrincipalMapper`, KIP-371. Patterns are Python's, which know nearly all of Java's.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from penstock.access.errors import NoPrincipal
from penstock.base.errors import ConfigError

DEFAULT = "DEFAULT"
_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<text>(?:\\.|[^\\/])*)/"
    r"(?P<letters>[LU]?))\s*(?:[,\n]|$)"
)
_PLACE = re.compile(r"\$(\d+)|\\(.)")
_LETTERS: dict[str, Callable[[str], str]] = {"": str, "L": str.lower, "U": str.upper}


class Rule(NamedTuple):
    """One rule; `pattern` None is DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str
    letters: str

    def apply(self, name: str) -> str | None:
        """Return the short name; None if the rule does not match."""
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        return _LETTERS[self.letters](_PLACE.sub(lambda one: _filled(one, match), self.replacement))


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Return the rules of `ssl.principal.mapping.rules`. Raises ConfigError."""
    rules: list[Rule] = []
    text, at = text.strip(), 0
    while at < len(text):
        match = _RULE.match(text, at)
        if match is None:
            raise ConfigError(
                f"{text[at : at + 80]!r} is no rule: write RULE:pattern/replacement/, with L or U"
                " after it if wanted, or DEFAULT, with commas between"
            )
        rules.append(_rule(match))
        at = match.end()
    return tuple(rules)


def short_name(name: str, rules: tuple[Rule, ...]) -> str:
    """Return what the rules make of a name. Raises NoPrincipal."""
    if not rules:
        return name
    for rule in rules:
        found = rule.apply(name)
        if found is not None:
            return found
    raise NoPrincipal(f"no rule matches {name[:200]!r}")


def _rule(match: re.Match[str]) -> Rule:
    if match["default"]:
        return Rule(None, "", "")
    try:
        pattern = re.compile(match["pattern"].replace("\\/", "/"))
    except re.error as error:
        raise ConfigError(f"{match['pattern']!r} is no pattern: {error}") from error
    places = [int(one[1]) for one in _PLACE.finditer(match["text"]) if one[1]]
    if max(places, default=0) > pattern.groups:
        raise ConfigError(f"{match['pattern']!r} has {pattern.groups} groups, not {max(places)}")
    return Rule(pattern, match["text"], match["letters"])


def _filled(place: re.Match[str], match: re.Match[str]) -> str:
    return (match[int(place[1])] or "") if place[1] else place[2]
