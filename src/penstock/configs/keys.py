"""What a topic configuration is, and how the text of one becomes a value.

A number is read as Java reads it, blanks around it left out, but with ASCII digits alone.

Source: Kafka `ConfigDef` (types and ranges), `LogConfig` and `ThrottledReplicaListValidator` (what
each key takes); Kafka 4.2.0.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from penstock.configs.entry import ConfigType

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
INT64_MIN = -INT64_MAX - 1
OWN_PREFIX = "penstock."
"""Before the names of configurations that Kafka has not."""

Value = int | float | str
Parse = Callable[[str], Value]
"""Returns the value of a text or raises ValueError with the reason."""

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL = re.compile(
    r"[+-]?(?:[0-9]{1,19}(?:\.[0-9]{0,19})?|\.[0-9]{1,19})(?:[eE][+-]?[0-9]{1,3})?"
)
_THROTTLED = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")


class BrokerName(NamedTuple):
    """A configuration of a broker that is a topic's default; its unit is `unit` of the topic's."""

    name: str
    unit: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigKey:
    """A row of the table."""

    key: str
    config_type: ConfigType
    documentation: str
    parse: Parse
    broker_names: tuple[BrokerName, ...] = ()
    """The strongest first; Kafka's own default stands under the last."""
    fixed_default: str | None = None
    """Default of a key that is no field of TopicSettings."""
    no_effect: str = ""
    """Why the key does nothing here; empty where it does something."""
    differs: str = ""
    """What of its effect is not as in Kafka; for the reference."""
    is_since_level_2: bool = False
    """Whether releases before feature level 2 stop at an override of it."""

    @property
    def field(self) -> str:
        """Name of the field of TopicSettings."""
        return self.key.removeprefix(OWN_PREFIX).replace(".", "_")

    @property
    def is_own(self) -> bool:
        """Whether Kafka has no such key."""
        return self.key.startswith(OWN_PREFIX)

    def value_in(self, settings: object) -> str:
        """The key's value in these TopicSettings, as text."""
        if self.fixed_default is not None:
            return self.fixed_default
        return str(getattr(settings, self.field))


def number(least: int, largest: int) -> Parse:
    """Whole numbers of these bounds, both inclusive."""

    def parse(text: str) -> Value:
        value = _whole(text)
        if not least <= value <= largest:
            raise ValueError(f"must be from {least} to {largest}")
        return value

    return parse


def _whole(text: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text):
        raise ValueError("not a whole number")
    return int(text)


def retention_bytes(text: str) -> Value:
    """Any 64-bit number: every negative one is -1, no limit."""
    value = _whole(text)
    if not INT64_MIN <= value <= INT64_MAX:
        raise ValueError(f"must be from {INT64_MIN} to {INT64_MAX}")
    return max(value, -1)


def gzip_level(text: str) -> Value:
    """From 1 to 9, or -1 for the library's own."""
    value = _whole(text)
    if value != -1 and not 1 <= value <= 9:
        raise ValueError("must be from 1 to 9, or -1")
    return value


def one_of(*allowed: str) -> Parse:
    """One of these words, in this spelling."""

    def parse(text: str) -> Value:
        if text not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return text

    return parse


def boolean(text: str) -> Value:
    """Kept as `true` or `false`, whatever the case."""
    if text.lower() not in {"true", "false"}:
        raise ValueError("must be true or false")
    return text.lower()


def ratio(text: str) -> Value:
    """A decimal number from 0 to 1."""
    if not _DECIMAL.fullmatch(text):
        raise ValueError("not a number")
    value = float(text)
    if not 0 <= value <= 1:
        raise ValueError("must be from 0 to 1")
    return abs(value)


def percent_or_other(text: str) -> Value:
    """A decimal number from 0 to 100; or -1, what another setting says."""
    if not _DECIMAL.fullmatch(text):
        raise ValueError("not a number")
    value = float(text)
    if value != -1 and not 0 <= value <= 100:
        raise ValueError("must be from 0 to 100, or -1")
    return abs(value) if value != -1 else value


def cleanup_policy(text: str) -> Value:
    """`delete`, `compact`, both in any order, or nothing, which keeps everything."""
    if not text:
        return ""
    policies = list(dict.fromkeys(item.strip() for item in text.split(",")))
    if not set(policies) <= {"compact", "delete"}:
        raise ValueError("must be of 'compact' and 'delete'")
    return ",".join(policies)


def throttled_replicas(text: str) -> Value:
    """`*`, or pairs of partition and broker; nothing is throttled where it is empty."""
    items = split_list(text)
    if items != ["*"] and not all(_THROTTLED.fullmatch(item) for item in items):
        raise ValueError("must be '*' or a list of partition:broker")
    return ",".join(items)


def split_list(text: str) -> list[str]:
    """Return the items of a list-typed value without blanks and empty items."""
    return [item.strip() for item in text.split(",") if item.strip()]
