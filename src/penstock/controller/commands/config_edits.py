"""Edits of the overrides of one resource, by the rules of its kind of keys.

Source: KIP-339; Kafka ConfigurationControlManager and KafkaApis for the checks and their errors.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from penstock.configs.keys import split_list
from penstock.controller.commands.command import ConfigEdit, ConfigOperation
from penstock.controller.errors import InvalidConfig, InvalidMetadataRequest


class KeyRules(NamedTuple):
    """What an edit has to know of a kind of keys; each raises InvalidConfig for an unknown one."""

    find: Callable[[str], object]
    """Called for a key that is deleted and not set; takes any where all may be deleted."""
    check: Callable[[str, str], str]
    """Returns the text to keep for a value, or raises InvalidConfig, also where it is too long."""
    list_value: Callable[[str], str | None]
    """Returns what a list is where it is not set, None for a key that is no list."""


def edited(
    now: Mapping[str, str], edits: Iterable[ConfigEdit], rules: KeyRules, *, replace: bool
) -> dict[str, str]:
    """Return the overrides after all edits; with `replace` nothing else remains.

    Raises InvalidConfig, InvalidMetadataRequest.
    """
    edits = list(edits)
    keys = Counter(edit.key for edit in edits)
    repeated = [key for key, count in keys.items() if count > 1]
    if repeated:
        raise InvalidMetadataRequest(f"The key {repeated[0]} is changed twice in one request.")
    wanted = {} if replace else dict(now)
    for edit in edits:
        _edit(now, wanted, edit, rules)
    return wanted


def _edit(
    now: Mapping[str, str], wanted: dict[str, str], edit: ConfigEdit, rules: KeyRules
) -> None:
    if edit.operation == ConfigOperation.DELETE:
        if edit.key not in wanted:
            rules.find(edit.key)
        wanted.pop(edit.key, None)
        return
    if edit.value is None:
        raise InvalidMetadataRequest(f"A null value is not supported for {edit.key}.")
    if edit.operation == ConfigOperation.SET:
        wanted[edit.key] = rules.check(edit.key, edit.value)
    elif edit.operation in {ConfigOperation.APPEND, ConfigOperation.SUBTRACT}:
        wanted[edit.key] = _edit_list(now, edit, edit.value, rules)
    else:
        raise InvalidMetadataRequest(f"Unknown configuration operation {edit.operation}.")


def _edit_list(now: Mapping[str, str], edit: ConfigEdit, value: str, rules: KeyRules) -> str:
    unset = rules.list_value(edit.key)
    if unset is None:
        raise InvalidConfig(edit.key, "is no list; only SET and DELETE can change it")
    items = split_list(now.get(edit.key, unset))
    given = split_list(value)
    if edit.operation == ConfigOperation.APPEND:
        there = frozenset(items)
        items += dict.fromkeys(item for item in given if item not in there)
    else:
        away = frozenset(given)
        items = [item for item in items if item not in away]
    return rules.check(edit.key, ",".join(items))
