"""The topics that a group's members subscribe to, by name and by regular expression.

Source: KIP-848; KIP-1101 (a hash of the topics instead of their partition counts in a record).
"""

import hashlib
from collections.abc import Iterable
from itertools import islice

import re2

from penstock.coordinator.portions import Steps
from penstock.groups.cluster import Cluster, TopicFacts

REGEX_CHARACTERS_MAX = 1_024
_REGEX_MEMORY_BYTES = 1 << 18
"""Memory of one compiled expression; RE2 refuses those that need more."""
NAMES_TOGETHER = 100
"""Names matched per step: about 1 us each."""


class InvalidRegex(Exception):
    """A regular expression that RE2 does not take; the text says why."""


def compiled(regex: str) -> "re2._Regexp[str]":
    """Return the compiled form of an expression. Raises InvalidRegex.

    RE2 needs time linear in the length of a name, whatever the expression.
    """
    if len(regex) > REGEX_CHARACTERS_MAX:
        raise InvalidRegex(f"{len(regex)} characters, at most {REGEX_CHARACTERS_MAX} are taken")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _REGEX_MEMORY_BYTES
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "not understood"
        raise InvalidRegex(_text(reason)) from error


def _text(reason: object) -> str:
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def matching(regex: str, cluster: Cluster, found: list[str]) -> Steps:
    """Append the names that match as a whole to `found`, some per step, and sort them."""
    pattern = compiled(regex)
    names = iter([*cluster.names()])
    while some := [*islice(names, NAMES_TOGETHER)]:
        found += [name for name in some if pattern.fullmatch(name)]
        yield NAMES_TOGETHER // 10
    found.sort()


def topics_hash(facts: Iterable[tuple[str, TopicFacts]]) -> int:
    """Return a hash of topics, given in order: another one if an assignment may be another one."""
    digest = hashlib.blake2b(digest_size=8)
    for name, topic in facts:
        racks = [sorted(some) for some in topic.racks]
        digest.update(repr((name, topic.topic_id, topic.partition_count, racks)).encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
