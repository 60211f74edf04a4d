"""Reads settings from a TOML file, the environment and `section.key=value` overrides.

Each source gives a tree `{section: {key: value}}`; later sources win key by key. Beside the tree
goes a record of where each value came from, so that an error can name the line's owner: the file,
the variable or the flag. Values from the environment and from flags are text; text with commas
becomes a list where the setting is one (a TOML list where values have commas), and pydantic turns
the rest into numbers and booleans.

It checks names only. Types and bounds are checked where the tree meets the dataclasses
(`settings.py`).
"""

import difflib
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.base.errors import ConfigError

ENVIRONMENT_PREFIX = "PENSTOCK__"

_TOML_LISTS = ('["', "['")

Schema = Mapping[str, Mapping[str, bool]]
"""Section name -> key -> whether the value is a list."""


@dataclass(slots=True)
class SettingsTree:
    """Values by section and key, and for each the words that name its source."""

    schema: Schema
    values: dict[str, dict[str, object]] = field(default_factory=dict)
    sources: dict[tuple[str, str], str] = field(default_factory=dict)

    def put(self, section: str, key: str, value: object, *, source: str) -> None:
        """Set one value. Raises ConfigError for names that do not exist."""
        keys = self.schema.get(section)
        if keys is None:
            raise ConfigError(_unknown(source, "section", section, self.schema))
        if key not in keys:
            raise ConfigError(_unknown_setting(self.schema, source, section, key))
        if keys[key] and isinstance(value, str):
            value = _list_of(value, source)
        self.values.setdefault(section, {})[key] = value
        self.sources[section, key] = source


def _list_of(text: str, source: str) -> list[object]:
    """Return the values of a list: text with commas, or a TOML list where values have commas."""
    text = text.strip()
    if not text.startswith(_TOML_LISTS):
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        found = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: not a valid TOML list: {error}") from error
    if len(found) > 1:
        raise ConfigError(f"{source}: not a valid TOML list: more stands behind it")
    values: list[object] = found["value"]
    return values


def read_toml(tree: SettingsTree, path: Path) -> None:
    """Put what the file says. Raises ConfigError if it can not be read or is not TOML."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such settings file") from None
    except OSError as error:
        raise ConfigError(f"{path}: can not be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    for section, content in document.items():
        if not isinstance(content, dict):
            raise ConfigError(f"{path}: {section} stands outside a section: write [section] above")
        for key, value in content.items():
            tree.put(section, key, value, source=str(path))


def read_environment(tree: SettingsTree, environment: Mapping[str, str]) -> None:
    """Put every `PENSTOCK__SECTION__KEY`; other variables are left alone."""
    for name in sorted(environment):
        if not name.startswith(ENVIRONMENT_PREFIX):
            continue
        section, separator, key = name[len(ENVIRONMENT_PREFIX) :].lower().partition("__")
        if not separator:
            raise ConfigError(
                f"environment variable {name}: write {ENVIRONMENT_PREFIX}SECTION__KEY"
            )
        source = f"environment variable {name}"
        tree.put(section, key, environment[name], source=source)


def read_overrides(tree: SettingsTree, overrides: Sequence[str]) -> None:
    """Put every `section.key=value` of the command line."""
    for section, key, value in parse_overrides(overrides):
        tree.put(section, key, value, source=f"--set {section}.{key}")


def parse_overrides(overrides: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield (section, key, value). Raises ConfigError unless each is `section.key=value`."""
    for override in overrides:
        name, equals, value = override.partition("=")
        section, dot, key = name.strip().partition(".")
        if not (equals and dot and section and key):
            raise ConfigError(f"--set {override}: write --set section.key=value")
        yield section, key, value.strip()


def _unknown_setting(schema: Schema, source: str, section: str, key: str) -> str:
    """Name what is alike in the section, or else in another one; all of the section if nothing is.

    Keys are compared without their section: `log.directories` is nothing like `log.check_reads`.
    """
    text = f"{source}: unknown setting {section}.{key}"
    for other in (section, *schema):
        if near := difflib.get_close_matches(key, schema[other], n=1):
            return f"{text}; did you mean {other}.{near[0]}?"
    return f"{text}; there are: {', '.join(f'{section}.{name}' for name in schema[section])}"


def _unknown(source: str, kind: str, name: str, names: Collection[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"
    return f"{source}: unknown {kind} {name}; {hint}"
