"""Errors that callers of the client can get. Texts say what to check next where that helps.

ClientError
  NoBrokerReachable(bootstrap, reason)      none of the given addresses answers as a broker
  ConnectionFailed(address, reason)         one connection broke; retried inside the client
    ClosedByBroker(address)                 it was closed without an answer
  AuthenticationFailed(address, reason)     the broker does not let the client in
    CertificateRefused(address, reason)     the client does not believe the broker's certificate
  WrongProtocol(address, protocol, speaks)  the broker's port has TLS and the client has not
  RequestTimedOut(what, timeout_ms)         no answer, or no success, within the time allowed
  MalformedAnswer(address, reason)          the other side does not speak the Kafka protocol
  UnsupportedByBroker(what)                 the broker is too old or has no such API
  TopicNotFound(topic, partition)           also for a partition that the topic does not have
  BrokerNotFound(broker_id, known)          the cluster has no broker with this id
  TokenNotFound(token_id)                   no delegation token with this id can be seen
  OffsetOutOfRange(topic, partition, offset)
  BrokerError(code, what, message)          any other error code that a broker answered
  ProducerFenced(topic, partition)          a newer producer took over this producer id
  DeliveryUnknown(topic, partition, why)    a batch may or may not have been written
  RecordTooLarge(size, limit)               one record is larger than a batch may be
  UnreadableRecords(topic, partition, why)  a batch in the log that cannot be read
ConfigError
  FileUnusable                              a file that the settings name, of this machine
"""

from collections.abc import Sequence

from penstock.base.errors import ConfigError, PlatformError
from penstock.protocol.error_codes import ErrorCode, known_code
from penstock.record.errors import UnreadableBatch


class ClientError(PlatformError):
    """Root of this room's errors."""


class FileUnusable(ConfigError):
    """A file with a secret, certificates or settings is not there, or not what it should be."""


class NoBrokerReachable(ClientError):
    """None of the bootstrap addresses answered."""

    def __init__(self, bootstrap: str, reason: str) -> None:
        super().__init__(f"no broker reachable at {bootstrap} ({reason}); is a node running there?")
        self.bootstrap = bootstrap
        self.reason = reason


class ConnectionFailed(ClientError):
    """A connection could not be opened, or broke; the request may have been carried out."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"connection to {address} failed: {reason}")
        self.address = address
        self.reason = reason


class ClosedByBroker(ConnectionFailed):
    """The broker closed a connection without an answer."""

    def __init__(self, address: str) -> None:
        super().__init__(address, "closed by the broker")


class AuthenticationFailed(ClientError):
    """The client, or the broker, could not prove who it is."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address} does not let this client in: {reason}")
        self.address = address
        self.reason = reason


class CertificateRefused(AuthenticationFailed):
    """The broker's certificate is of no authority that the client knows, over, or of others."""


class WrongProtocol(ClientError):
    """One side has TLS, and the other has not."""

    def __init__(self, address: str, protocol: str, speaks: str) -> None:
        super().__init__(f"{address} {speaks}, and security.protocol is {protocol}")
        self.address = address
        self.protocol = protocol
        self.speaks = speaks


class RequestTimedOut(ClientError):
    """The deadline passed, with or without retries; `reason` is the last error, if any."""

    def __init__(self, what: str, timeout_ms: int, reason: str = "no answer") -> None:
        super().__init__(f"{what}: not done within {timeout_ms} ms ({reason})")
        self.what = what
        self.timeout_ms = timeout_ms
        self.reason = reason


class MalformedAnswer(ClientError):
    """Bytes that are not an answer to the request."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address} answered something that is not the Kafka protocol: {reason}")
        self.address = address
        self.reason = reason


class UnsupportedByBroker(ClientError):
    """No version of a request is known to both sides."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the broker does not support {what}")
        self.what = what


class TopicNotFound(ClientError):
    """There is no such topic, or no such partition of it."""

    def __init__(self, topic: str, partition: int | None = None) -> None:
        which = f"topic {topic}" if partition is None else f"partition {partition} of topic {topic}"
        super().__init__(f"{which} does not exist")
        self.topic = topic
        self.partition = partition


class BrokerNotFound(ClientError):
    """The cluster has no such broker, or not at the moment."""

    def __init__(self, broker_id: int, known: Sequence[int]) -> None:
        ids = ", ".join(map(str, known))
        super().__init__(f"broker {broker_id} is not in the cluster now; its brokers are {ids}")
        self.broker_id = broker_id
        self.known = tuple(known)


class TokenNotFound(ClientError):
    """There is no such delegation token that the client may see."""

    def __init__(self, token_id: str) -> None:
        super().__init__(f"there is no delegation token {token_id} that you may see")
        self.token_id = token_id


class OffsetOutOfRange(ClientError):
    """The log does not have this offset: it was deleted, or is not written yet."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(f"offset {offset} is not in the log of {topic}-{partition}")
        self.topic = topic
        self.partition = partition
        self.offset = offset


class BrokerError(ClientError):
    """A broker refused a request; `code` is Kafka's."""

    def __init__(self, code: ErrorCode, what: str, message: str | None = None) -> None:
        shown = f": {message}" if message else ""
        super().__init__(f"{what} refused with {code.name}{shown}")
        self.code = code
        self.what = what
        self.message = message

    @property
    def is_retriable(self) -> bool:
        return self.code.retriable


class ProducerFenced(ClientError):
    """Another producer uses this producer id with a newer epoch."""

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(f"a newer producer took over while writing to {topic}-{partition}")
        self.topic = topic
        self.partition = partition


class DeliveryUnknown(ClientError):
    """A batch may or may not be in the log; sending it again could write it twice."""

    def __init__(self, topic: str, partition: int, why: str) -> None:
        super().__init__(f"a batch for {topic}-{partition} may or may not have been written: {why}")
        self.topic = topic
        self.partition = partition
        self.why = why


class RecordTooLarge(ClientError):
    """One record does not fit a batch."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"a record of {size} bytes exceeds the batch limit of {limit} bytes")
        self.size = size
        self.limit = limit


class UnreadableRecords(ClientError):
    """A batch in the log does not match its header, or is too large decompressed."""

    def __init__(self, topic: str, partition: int, why: UnreadableBatch) -> None:
        super().__init__(
            f"{topic}-{partition}: offsets {why.first_offset} to {why.last_offset} can not be read:"
            f" {why.reason}; they can be skipped (--skip-corrupt)"
        )
        self.topic = topic
        self.partition = partition
        self.first_offset = why.first_offset
        self.last_offset = why.last_offset
        self.reason = why.reason


def error_code(code: int) -> ErrorCode:
    """Return the code; one that is not in our table becomes UNKNOWN_SERVER_ERROR."""
    return known_code(code)
