r"""Properties of a message as text: name, \x01, value, \x02, and so on.

Source: RocketMQ `MessageDecoder.string2messageProperties`, `messageProperties2String`. A pair
without a name or a value is skipped. In what is written no name and no value is empty or has a
separator: clients before 5.0 skip values with \x01, and all of them cut at \x02. `brokerConfig`'s
regionId is DefaultRegion; `AsyncTraceDispatcher` drops what has none.
"""

from collections.abc import Mapping
from typing import Final

NAME_END: Final = "\x01"
VALUE_END: Final = "\x02"
PROPERTIES_BYTES_MAX: Final = (1 << 15) - 1
"""Their length is an i16 on the wire."""
REGION: Final = "MSG_REGION"
"""Name of a property that RocketMQ's brokers give to each message. Java's clients, and those that
follow them, trace the consumption of messages that have it, and of no other."""
_REGION_TOLD: Final = f"{REGION}{NAME_END}DefaultRegion{VALUE_END}"


def read_properties(text: str) -> dict[str, str]:
    """Return the pairs of a text; of equal names the last one counts."""
    found = {}
    for pair in text.split(VALUE_END):
        name, _, value = pair.partition(NAME_END)
        if name and value:
            found[name] = value
    return found


def write_properties(properties: Mapping[str, str]) -> str:
    """Return the text of properties that can be told."""
    return "".join(
        [f"{name}{NAME_END}{value}{VALUE_END}" for name, value in properties.items()],
    )


def write_consumed(properties: Mapping[str, str]) -> str:
    """Return the text of what a consumer gets: with a region, where there is room for it."""
    text = write_properties(properties)
    if REGION in properties or len(text.encode()) + len(_REGION_TOLD) > PROPERTIES_BYTES_MAX:
        return text
    return text + _REGION_TOLD


def can_be_told(text: str) -> bool:
    """Whether every client reads this name or value as it is."""
    return bool(text) and NAME_END not in text and VALUE_END not in text


def told_bytes(name: str, value: str) -> int:
    """Return how many bytes of UTF-8 a pair takes."""
    if name.isascii() and value.isascii():
        return len(name) + len(value) + 2
    return len(name.encode()) + len(value.encode()) + 2
