"""All planted bugs, in the order of the table: `MUTANTS` of every module called `*_bugs`."""

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

from .mutant import Mutant

_FIRST = ("raft", "log", "disk", "set", "link", "group", "controller")
"""Modules that come first in the table, in this order; the others follow by name."""


def _modules() -> list[str]:
    found = pkgutil.iter_modules([str(Path(__file__).parent)])
    names = [one.name for one in found if one.name.endswith("_bugs")]
    first = [f"{name}_bugs" for name in _FIRST]
    return [*first, *sorted(set(names) - set(first))]


def _mutants() -> Iterator[Mutant]:
    for name in _modules():
        module = importlib.import_module(f"{__package__}.{name}")
        yield from module.MUTANTS


MUTANTS: tuple[Mutant, ...] = tuple(_mutants())


def chosen(names: list[str]) -> list[Mutant]:
    """Return the bugs whose names are given or begin with what is given; all for none.

    Raises:
        KeyError: nothing is called so.
    """
    if not names:
        return list(MUTANTS)
    found = [one for one in MUTANTS if any(one.name.startswith(name) for name in names)]
    for name in names:
        if not any(one.name.startswith(name) for one in found):
            raise KeyError(f"no planted bug is called {name}")
    return found
