"""The root of the error tree. Every room documents its own branch in its `errors.py`.

    PlatformError
      ConfigError            settings, data directory, port: one line for the operator, exit code 2
      WireError              protocol/errors.py
      RecordError            record/errors.py
      StorageError           storage/errors.py
      ReplicationError       replication/errors.py
      CoordinatorError       coordinator/errors.py
      CompactionError        compaction/errors.py
      TierError              tier/errors.py
      MetadataError          controller/errors.py
      ClientError            client/errors.py
      AccessError            access/errors.py
    InvariantViolation       base/invariant.py; not a PlatformError: never handled, never retried

An error carries fields, and its text says what to do where a person can do something. Exactly one
function of the broker turns these classes into Kafka error codes.
"""

from typing import TypeVar

E = TypeVar("E", bound=Exception)


class PlatformError(Exception):
    """Anything Penstock reports on purpose."""


class ConfigError(PlatformError):
    """A setting, a data directory or a port that cannot be used; the text says what to change."""


def as_answer(error: E) -> E:
    """Return `error` without its traceback, to be kept as an answer.

    The traceback refers to the frame that keeps the error: a cycle which only a full garbage
    collection frees.
    """
    return error.with_traceback(None)
