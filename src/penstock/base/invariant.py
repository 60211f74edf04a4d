"""`invariant()`: the check for safety properties whose breach means corrupt state.

`assert` is for what only a programming mistake can break; `invariant` is never switched off. The
supervisor alone catches the exception, and fences the log or stops the process: going on with
state that is known to be wrong is how acknowledged data gets lost.
"""


class InvariantViolation(Exception):
    """A safety property does not hold: our bug or corrupt state. Stop or fence, never retry."""


def invariant(condition: bool, message: str, **values: object) -> None:
    """Raise InvariantViolation with `values` in its message unless `condition` holds."""
    if condition:
        return
    shown = ", ".join(f"{name}={value!r}" for name, value in values.items())
    raise InvariantViolation(f"{message} ({shown})" if shown else message)
