"""Check of a value for a key of a broker, a group or client metrics.

Source: Kafka `ConfigDef.parseType`, `ConfigDef.validate`.
"""

from penstock.configs.resource_keys import ResourceKey
from penstock.controller.errors import InvalidConfig

TEXT_CHARACTERS_MAX = 4_096
"""Of a value: it stands in the metadata of every process."""


def checked(row: ResourceKey, text: str) -> str:
    """Return the text to keep for a value. Raises InvalidConfig when it can not be."""
    if len(text) > TEXT_CHARACTERS_MAX:
        reason = f"is longer than {TEXT_CHARACTERS_MAX} characters"
        raise InvalidConfig(row.key, reason)
    try:
        return str(row.parse(text.strip()))
    except ValueError as error:
        raise InvalidConfig(row.key, f"invalid value {text[:100]!r}: {error}") from error
