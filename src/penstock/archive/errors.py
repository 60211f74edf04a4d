"""Errors of archives. Each text says what to do.

PlatformError
  ArchiveError
    NoArchive          there is none at this place
    ArchiveLies        a file is missing, damaged, or not what the manifest says of it
    ArchiveMismatch    the archive is of another topic, or of a later release
    ArchiveTaken       another command has written to the archive meanwhile
    RecordsGone        the topic does not have any more what comes next in the archive
    NotInStore         the store of a lost cluster does not have what is asked for
    PlaceUnfit         an archive can not be kept there
    ReplayRefused      the target can not take the records as they are
    ReplayStopped      a replay can not go on; what it has committed stays
"""

from penstock.base.errors import PlatformError


class ArchiveError(PlatformError):
    """Root of the errors of archives."""


class NoArchive(ArchiveError):
    """Nothing at the place says that it is an archive."""


class NoPolicy(ArchiveError):
    """Records are kept for ever, so that none is too old."""


class ArchiveLies(ArchiveError):
    """A file of the archive is not to be believed; nothing of it is used."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name} of the archive is not to be believed: {reason}")
        self.name = name
        self.reason = reason


class ArchiveMismatch(ArchiveError):
    """The archive is another one than this command can go on with."""


class ArchiveTaken(ArchiveError):
    """Another writer was there; what this one has not committed does not count."""


class RecordsGone(ArchiveError):
    """Records that the archive does not have are gone from the topic."""


class NotInStore(ArchiveError):
    """No object of the store has records of what was asked for."""


class PlaceUnfit(ArchiveError):
    """The store lacks what an archive rests on."""


class ReplayRefused(ArchiveError):
    """Nothing was written: the target would not keep the records as they are."""


class ReplayStopped(ArchiveError):
    """A replay that has begun can not go on by itself."""
