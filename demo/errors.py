"""What ends the demo early, always with one line for the person who runs it."""


class DemoError(Exception):
    """The demo can not go on; the text says why and what to do."""


class InputError(DemoError):
    """The input can not be used."""
