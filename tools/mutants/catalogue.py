"""All planted bugs, in the order of the table."""

from . import (
    controller_bugs,
    disk_bugs,
    group_bugs,
    link_bugs,
    log_bugs,
    raft_bugs,
    set_bugs,
)
from .mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *raft_bugs.MUTANTS,
    *log_bugs.MUTANTS,
    *disk_bugs.MUTANTS,
    *set_bugs.MUTANTS,
    *link_bugs.MUTANTS,
    *group_bugs.MUTANTS,
    *controller_bugs.MUTANTS,
)


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
