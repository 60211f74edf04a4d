"""A callback for whoever does not want to be called."""


def nothing(*_: object) -> None:
    """Stand in for a callback that nobody has set, or for a result that nobody needs."""
