"""What a configuration key of a broker, a group or client metrics is.

Source: Kafka 4.2 `DynamicBrokerConfig`, `GroupConfig` and `ClientMetricsConfigs` (names, types,
ranges, defaults); documentation in our own words.
"""

import re
from dataclasses import dataclass

from penstock.configs.entry import ConfigType
from penstock.configs.keys import Parse, Value, split_list
from penstock.configs.patterns import compiled_pattern

_DURATION = re.compile(
    r"[+-]?P(?=.)(?:([+-]?\d{1,9})D)?"
    r"(?:T(?=.)(?:([+-]?\d{1,9})H)?(?:([+-]?\d{1,9})M)?(?:([+-]?\d{1,9}(?:[.,]\d{0,9})?)S)?)?",
    re.IGNORECASE,
)
_BY_DURATION = "by_duration:"
_MATCHED = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceKey:
    """A row of a table of keys.

    `default` is Kafka's, as text, for keys that no setting of the node stands behind; `setting` is
    the node's setting that the key changes, as `section.field`. One of both is given.
    `no_effect` says why the key does nothing here; empty where it does something.
    """

    key: str
    config_type: ConfigType
    parse: Parse
    documentation: str
    default: str = ""
    setting: str = ""
    no_effect: str = ""


def offset_reset(text: str) -> Value:
    """`earliest`, `latest`, or `by_duration:` with a duration of ISO 8601 that is not negative."""
    if text in {"earliest", "latest"}:
        return text
    duration = text.removeprefix(_BY_DURATION)
    if duration == text or not _DURATION.fullmatch(duration):
        raise ValueError("must be earliest, latest or by_duration:PnDTnHnMn.nS")
    if "-" in duration:
        raise ValueError("the duration must not be negative")
    return text


def duration_ms(text: str) -> int:
    """Return the milliseconds of a value of `offset_reset` that is by duration."""
    found = _DURATION.fullmatch(text.removeprefix(_BY_DURATION))
    assert found is not None, text
    days, hours, minutes, seconds = (part or "0" for part in found.groups())
    whole = ((int(days) * 24 + int(hours)) * 60 + int(minutes)) * 60_000
    return whole + int(float(seconds.replace(",", ".")) * 1_000)


def name_list(text: str) -> Value:
    """Any list of texts, without blanks around them."""
    return ",".join(split_list(text))


def client_patterns(text: str) -> Value:
    """A list of `what=regular expression`, of which each must be there once at most.

    The expression is RE2's, which takes linear time; those of Kafka before 4.5 are Java's.
    """
    items = split_list(text)
    seen = set[str]()
    for item in items:
        what, sign, pattern = item.partition("=")
        what = what.strip()
        if not sign or what not in _MATCHED:
            raise ValueError(f"{item[:100]!r} must be NAME=PATTERN, NAME of {', '.join(_MATCHED)}")
        if what in seen:
            raise ValueError(f"{what} is named twice")
        seen.add(what)
        try:
            compiled_pattern(pattern.strip())
        except ValueError as error:
            raise ValueError(f"{what}: {error}") from error
    return ",".join(items)
