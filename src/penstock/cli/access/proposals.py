"""`penstock acl propose`: the rules that match what the audit saw in use."""

import shlex
from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

from penstock.cli.access.audit_rows import rows_since, since, tell_left_out
from penstock.cli.output import note

if TYPE_CHECKING:
    from penstock.audit.uses import Use

USES_MAX = 100_000


def uses_since(bootstrap: str, timeout: float, start: str, principal: str | None) -> "list[Use]":
    """Return the permissions that were used, without those that others imply."""
    from penstock.audit.uses import needed, use_of

    found: set[Use] = set()
    left_out = cut = 0
    place = since(start)
    for row in rows_since(bootstrap, timeout, place):
        use = use_of(row)
        if use is None or principal not in {None, use.principal}:
            continue
        if row.ended_ms <= place.value:
            continue
        if use.is_cut:
            cut += 1
        elif use not in found and len(found) >= USES_MAX:
            left_out += 1
        else:
            found.add(use)
    tell_left_out(left_out, "uses")
    if cut:
        note(f"partial: {cut} rows are left out, whose names are longer than rows keep")
    return needed(found)


def lines(uses: "Iterable[Use]") -> list[str]:
    """Return the commands that add the rules, one for each principal and resource.

    A name that the command reads as a pattern, or that is empty, is told and left out.
    """
    told = []
    for (principal, resource, name), group in groupby(uses, key=lambda use: use[:3]):
        if resource != "cluster" and (not name.strip() or name.endswith("*")):
            note(f"partial: {resource} {name!r} of {principal} can be written as JSON only")
            continue
        operations = [f"--operation {use.operation.replace('_', '-')}" for use in group]
        text = resource.replace("_", "-")
        where = text if resource == "cluster" else f"{text}:{name}"
        who = f"--allow {shlex.quote(principal)}"
        told.append(f"penstock acl add {who} {' '.join(operations)} {shlex.quote(where)}")
    return told
