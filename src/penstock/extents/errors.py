"""What can be wrong with an extent file.

    PlatformError
      ExtentError
        CorruptExtentFile    the bytes are not those that were written
        NewerExtentFile      a later release wrote it

Source: the same two as for a commit log, storage/errors.py.
"""

from penstock.base.errors import PlatformError


class ExtentError(PlatformError):
    """Root of the errors of extent files."""


class CorruptExtentFile(ExtentError):
    """A file, or what was said to be one, is damaged at byte `at`; nothing of it is served."""

    def __init__(self, path: str, at: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at byte {at}: {reason}")
        self.path = path
        self.at = at
        self.reason = reason


class NewerExtentFile(ExtentError):
    """The file is undamaged and has a version or flags that this release does not know."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(f"{path} was written by a later release ({what}): read it with that one")
        self.path = path
        self.what = what
