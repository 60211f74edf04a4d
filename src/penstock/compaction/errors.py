"""What stops a pass over a partition. Damage of a batch is a RecordError, as everywhere.

    PlatformError
      CompactionError
        KeyMapTooSmall    the first dirty batch alone has more keys than the map takes
        UnlistedAbort     an abort marker of a transaction that is not on the list of aborted ones

A pass that is stopped has changed nothing: what it gave out so far is not used.
"""

from penstock.base.errors import PlatformError


class CompactionError(PlatformError):
    """Root of the errors of cleaning."""


class KeyMapTooSmall(CompactionError):
    """Not one batch fits, so that a pass would get nowhere."""

    def __init__(self, offset: int, key_count_max: int) -> None:
        super().__init__(
            f"the batch at offset {offset} has more keys than the {key_count_max} "
            "that the cleaner's memory takes: give it more"
        )
        self.offset = offset
        self.key_count_max = key_count_max


class UnlistedAbort(CompactionError):
    """Records that were aborted would count as committed ones."""

    def __init__(self, offset: int, producer_id: int) -> None:
        super().__init__(
            f"the marker at offset {offset} aborts a transaction of producer {producer_id} "
            "that the notes of its extent do not list"
        )
        self.offset = offset
        self.producer_id = producer_id
