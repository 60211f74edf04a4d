"""What can go wrong with a commit log.

    StorageError
      OutOfSpace            no space for another segment: refused until there is
        SegmentNotReady     the next segment is still being allocated: the disk is behind
      LogFenced             a write or fsync failed: this log takes no writes until it is recovered
      OffsetOutOfRange      below the log start or beyond the log end
      BatchTooLargeForLog   can never fit into a segment
      ReadFailed            the disk did not give the bytes back
        ExtentDamaged       a file of the second level is not what was written
      CorruptFrame          the bytes at a position are not a valid frame of that position
      CorruptFile           an index, side or snapshot file is damaged; all of them can be rebuilt
      CorruptLog            acknowledged data can not be read back; an operator has to decide
        CorruptSecondLevel  so it is with the files behind the log
      NewerFormat           a later release has written to the log: this one does not open it
      OutOfOrderSequence    an idempotent producer left a gap, or repeats an old batch
      ProducerFenced        a newer instance of the producer has written already
      UnknownProducer       no state of the producer, where state is required
      LogBusy               the log is being truncated or replaced: works again when that is done
      LogFollows            the log takes only a master's runs: its owner is a slave
      PositionOutOfRange    no run can be read from this position
      GapInRun              a run does not begin at the end of the log
      BadRun                a run is damaged, or does not continue the log
      BadInstall            a copied base is damaged or inconsistent
      BadBatches            another member's batches are not those that a repair has asked for
      RangeRewritten        a range was cleaned here: another member's batches are not it
      BaseNotReady          there is no base to copy yet
      ExportEnded           the base that was being copied is no longer kept

Source: the error names of Kafka's storage layer (KafkaStorageException, OffsetOutOfRangeException)
where the meaning is the same.
"""

from penstock.base.ids import Position, ProducerEpoch, ProducerId
from penstock.frames import errors as of_frames

StorageError = of_frames.StorageError
CorruptFrame = of_frames.CorruptFrame
BadRun = of_frames.BadRun


class OutOfSpace(StorageError):
    """There is no space for the next segment; `reason` has the needed and the free bytes."""

    def __init__(self, directory: str, reason: str | None = None) -> None:
        why = f" ({reason})" if reason else ""
        super().__init__(f"no space left for {directory}{why}: free some, or shorten retention")
        self.directory = directory


class SegmentNotReady(OutOfSpace):
    """The segment is full and the next one is not allocated yet; works again soon."""

    def __init__(self, directory: str) -> None:
        StorageError.__init__(
            self, f"the next segment of {directory} is not allocated yet: the disk is behind"
        )
        self.directory = directory


class LogFenced(StorageError):
    """A write or sync of this log failed; restart the node to recover it from durable data."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"log is fenced after an I/O error: {reason}; check the disk and restart")
        self.reason = reason


class OffsetOutOfRange(StorageError):
    """The offset is outside [log_start_offset, log_end_offset]."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"offset {offset} is outside [{log_start_offset}, {log_end_offset}]")
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class BatchTooLargeForLog(StorageError):
    """The batch does not fit into one segment."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"batch of {size_bytes} bytes, at most {limit_bytes} fit a segment")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class ReadFailed(StorageError):
    """The operating system reported an error while reading."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"reading the log failed: {reason}; check the disk")
        self.reason = reason


class ExtentDamaged(ReadFailed):
    """A file of the second level is damaged or gone; what is damaged is not served."""

    def __init__(self, file_number: int, reason: str) -> None:
        StorageError.__init__(self, reason)
        self.file_number = file_number
        self.reason = reason


class CorruptFile(StorageError):
    """A derived file (index, side file, snapshot) is damaged."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} is damaged: {reason}")
        self.path = path
        self.reason = reason


class CorruptLog(StorageError):
    """Durable data can not be read back. It is never silently cut off."""

    def __init__(self, directory: str, position: int, reason: str) -> None:
        super().__init__(
            f"commit log {directory} is damaged at position {position}: {reason}. Data behind it "
            "was already durable, so it is not cut off: restore the files from a replica or a "
            f"backup, or run `penstock log verify {directory}` to see what is readable"
        )
        self.directory = directory
        self.position = Position(position)
        self.reason = reason


class CorruptSecondLevel(CorruptLog):
    """Manifest or extent files are damaged such that a start can not tell what they have."""

    def __init__(self, directory: str, reason: str) -> None:
        StorageError.__init__(
            self,
            f"the second level of {directory} is damaged: {reason}. Restore its files from a "
            f"replica or a backup, or run `penstock log verify {directory}`",
        )
        self.directory = directory
        self.position = Position(-1)
        """Of no byte of the log: a repair keeps nothing of it."""
        self.reason = reason


class NewerFormat(StorageError):
    """A file of the log is undamaged and of a version that this release does not know."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"{path} was written by a later release ({what}) and is left as it is: start that "
            "release again"
        )
        self.path = path
        self.what = what


class OutOfOrderSequence(StorageError):
    """The batch does not begin with the expected sequence number."""

    def __init__(self, producer_id: ProducerId, base_sequence: int, expected: int) -> None:
        super().__init__(f"producer {producer_id}: sequence {base_sequence}, expected {expected}")
        self.producer_id = producer_id
        self.base_sequence = base_sequence
        self.expected = expected


class ProducerFenced(StorageError):
    """The producer epoch is older than one that has written to the partition."""

    def __init__(self, producer_id: ProducerId, producer_epoch: ProducerEpoch, newest: int) -> None:
        super().__init__(f"producer {producer_id}: epoch {producer_epoch}, newest is {newest}")
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.newest = newest


class UnknownProducer(StorageError):
    """There is no state of the producer, and the caller requires one."""

    def __init__(self, producer_id: ProducerId) -> None:
        super().__init__(f"producer {producer_id} is not known here")
        self.producer_id = producer_id


class LogBusy(StorageError):
    """The log is being truncated, reset or replaced; it can be used again afterwards."""

    def __init__(self, directory: str) -> None:
        super().__init__(f"commit log {directory} is being realigned with its master: try again")
        self.directory = directory


class LogFollows(StorageError):
    """Appends are refused since the log follows a master."""

    def __init__(self, directory: str) -> None:
        super().__init__(f"commit log {directory} follows a master and takes no appends")
        self.directory = directory


class PositionOutOfRange(StorageError):
    """No run begins at this position: the bytes were deleted, or are not written yet."""

    def __init__(self, position: int, start_position: int, end_position: int) -> None:
        super().__init__(f"position {position} is outside [{start_position}, {end_position}]")
        self.position = position
        self.start_position = start_position
        self.end_position = end_position


class NoFrameBegins(StorageError):
    """The position lies inside a frame, or in a gap: whoever named it has another log."""

    def __init__(self, position: int) -> None:
        super().__init__(f"no frame begins at position {position}, and the log is whole there")
        self.position = Position(position)


class GapInRun(StorageError):
    """The run does not begin where the log ends; the slave has to align again."""

    def __init__(self, position: int, end_position: int) -> None:
        super().__init__(f"run begins at {position}, the log ends at {end_position}")
        self.position = position
        self.end_position = end_position


class BadInstall(StorageError):
    """The manifest of a base, or the files copied for it, can not be used."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the copied base can not be used: {reason}; copy it again")
        self.reason = reason


class BaseNotReady(StorageError):
    """No base can be exported now."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no base to copy: {reason}; try again")
        self.reason = reason


class ExportEnded(StorageError):
    """The copy paused for too long, or the log was closed or replaced: begin again."""

    def __init__(self) -> None:
        super().__init__("the base being copied is no longer kept: ask for a new one")


class BadBatches(StorageError):
    """What another member has sent for a damaged extent does not belong there."""


class RangeRewritten(StorageError):
    """Batches that were rewritten by one member can not be had from another."""
