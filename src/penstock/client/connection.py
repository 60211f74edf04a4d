"""One TCP connection to one broker: requests are sent, answers are received in the same order.

The idea: `send` writes a request and remembers it, `receive` reads the next answer; several
requests may be under way, and a broker answers them in order. Any failure (time-out, broken socket,
an answer that does not match) closes the connection for good, since the rest of the stream could
not be trusted. The owner opens another one.

It deliberately knows no topics and no retries: see `cluster.py`. Not for two threads at once.
"""

import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Generator, Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from penstock.base.errors import ConfigError
from penstock.client.access.wrong_port import answers_plainly, has_tls
from penstock.client.errors import (
    AuthenticationFailed,
    BrokerError,
    CertificateRefused,
    ClientError,
    ClosedByBroker,
    ConnectionFailed,
    MalformedAnswer,
    RequestTimedOut,
    WrongProtocol,
    error_code,
)
from penstock.client.settings import ClientSettings
from penstock.client.versions import choose_version
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import WireError
from penstock.protocol.header import parse_response_header, request_header
from penstock.protocol.messages import decode_response, encode_request

Buffer = bytes | bytearray | memoryview

_JOINED_BYTES_MAX = 16 << 10
IN_FLIGHT_MAX = 16
"""As many requests as our brokers read ahead from one connection."""

_OTHER_PROTOCOLS = {
    b"HTTP": "it speaks HTTP, as the metrics port of a node does",
    b"\x15\x03": "it speaks TLS",
    b"SSH-": "it speaks SSH",
}
"""What an answer of another protocol begins with, where a port was mistaken for a broker's."""

_REFUSING_ALERTS = (
    *("CERTIFICATE_REQUIRED", "BAD_CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE"),
    *("CERTIFICATE_EXPIRED", "CERTIFICATE_REVOKED", "CERTIFICATE_UNKNOWN", "ACCESS_DENIED"),
)
"""Ends of alerts of TLS by which a broker refuses a client's certificate, or that it has none."""

_SIZE = struct.Struct(">i")
_CORRELATION_MASK = 0x7FFFFFFF


class _Pending(NamedTuple):
    api_key: ApiKey
    api_version: int
    correlation_id: int


class Connection:
    """An open connection, with the API versions that its broker offers."""

    def __init__(self, host: str, port: int, settings: ClientSettings) -> None:
        """Connect and negotiate. Raises ConnectionFailed, RequestTimedOut, MalformedAnswer,
        AuthenticationFailed, WrongProtocol.
        """
        self.address = f"{host}:{port}"
        self.is_closed = False
        self._settings = settings
        self._pending: deque[_Pending] = deque()
        self._next_correlation_id = 0
        self._offered: dict[int, tuple[int, int]] = {ApiKey.API_VERSIONS: (0, 0)}
        self._socket = _connect(host, port, settings)
        try:
            answer = self.call(ApiKey.API_VERSIONS, {})
        except ConnectionFailed as error:
            if not settings.security.has_tls and has_tls(host, port):
                raise self._wrong_protocol("has TLS") from error
            raise
        self._negotiate(answer)

    def _negotiate(self, answer: Any) -> None:
        code = error_code(int(answer.error_code))
        if code:
            self.close()
            raise BrokerError(code, f"ApiVersions of {self.address}")
        self._offered = {
            int(api.api_key): (api.min_version, api.max_version) for api in answer.api_keys
        }
        if self._settings.security.has_sasl:
            try:
                self._settings.security.prove(self.call, self.address)
            except (ClientError, ConfigError):
                self.close()
                raise

    @property
    def in_flight_count(self) -> int:
        """Requests sent whose answers were not received yet."""
        return len(self._pending)

    def version(self, api_key: ApiKey, ours: tuple[int, int] | None = None) -> int:
        """Return the version to use with this broker, of `ours` or those that the client usually
        speaks. Raises UnsupportedByBroker.
        """
        return choose_version(api_key, self._offered, ours)

    def fileno(self) -> int:
        """For `select`: readable when an answer, or the end of the connection, has arrived."""
        return self._socket.fileno()

    def call(self, api_key: ApiKey, fields: Mapping[str, Any], *, wait_ms: int = 0) -> Any:
        """Send a request and return the decoded answer; no other request may be under way.

        `wait_ms` is how long the broker was asked to wait; it is added to the time-out.
        """
        assert not self._pending, "call between send and receive"
        version = self.version(api_key)
        self.send(api_key, version, encode_request(api_key, version, fields))
        frame, at = self.receive(wait_ms=wait_ms)
        try:
            return decode_response(api_key, version, frame, at)
        except WireError as error:
            raise self._malformed(str(error)) from error

    def call_each(
        self, api_key: ApiKey, requests: Iterable[Mapping[str, Any]]
    ) -> Generator[Any, None, None]:
        """Yield the decoded answers to several requests, of which up to IN_FLIGHT_MAX are under way
        at a time. The connection is closed if the caller does not take all of them.
        """
        assert not self._pending, "call_each between send and receive"
        version, left = self.version(api_key), iter(requests)
        try:
            while some := list(islice(left, IN_FLIGHT_MAX)):
                for fields in some:
                    self.send(api_key, version, encode_request(api_key, version, fields))
                for _ in some:
                    frame, at = self.receive()
                    yield decode_response(api_key, version, frame, at)
        except WireError as error:
            raise self._malformed(str(error)) from error
        finally:
            if self._pending:
                self.close()

    def send(self, api_key: ApiKey, api_version: int, *body: Buffer) -> None:
        """Write one request; `receive` returns its answer after those of earlier requests.

        Raises ConnectionFailed, RequestTimedOut.
        """
        assert len(self._pending) < IN_FLIGHT_MAX, "receive before sending more"
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & _CORRELATION_MASK
        head = request_header(
            api_key,
            api_version,
            correlation_id=correlation_id,
            client_id=self._settings.client_id,
        )
        size = len(head) + sum(map(len, body))
        self._send_all([_SIZE.pack(size) + head, *body])
        self._pending.append(_Pending(api_key, api_version, correlation_id))

    def receive(self, *, wait_ms: int = 0) -> tuple[memoryview, int]:
        """Return the next answer as (frame, position of its body).

        Raises ConnectionFailed, RequestTimedOut, MalformedAnswer.
        """
        pending = self._pending[0]
        deadline = time.monotonic() + (self._settings.request_timeout_ms + wait_ms) / 1000
        head = bytes(self._receive_exactly(_SIZE.size, deadline))
        (size,) = _SIZE.unpack(head)
        if not _SIZE.size <= size <= self._settings.response_bytes_max:
            raise self._malformed(_other_protocol(head) or f"a frame of {size} bytes")
        frame = self._receive_exactly(size, deadline)
        try:
            correlation_id, at = parse_response_header(frame, pending.api_key, pending.api_version)
        except WireError as error:
            raise self._malformed(str(error)) from error
        if correlation_id != pending.correlation_id:
            raise self._malformed(f"correlation id {correlation_id} is not the expected one")
        self._pending.popleft()
        return frame, at

    def close(self) -> None:
        """Close; may be called again."""
        self.is_closed = True
        self._pending.clear()
        self._socket.close()

    def _send_all(self, buffers: list[Buffer]) -> None:
        deadline = time.monotonic() + self._settings.request_timeout_ms / 1000
        left = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
        try:
            while left:
                self._socket.settimeout(self._remaining(deadline))
                sent = self._send_some(left)
                while left and sent >= len(left[0]):
                    sent -= len(left.pop(0))
                if sent:
                    left[0] = left[0][sent:]
        except TimeoutError:
            raise self._timed_out() from None
        except OSError as error:
            raise self._broken(error) from error

    def _send_some(self, buffers: list[memoryview]) -> int:
        """Send something of the buffers; over TLS small ones share a record."""
        if not isinstance(self._socket, ssl.SSLSocket):
            return self._socket.sendmsg(buffers)
        if len(buffers) > 1 and len(buffers[0]) + len(buffers[1]) <= _JOINED_BYTES_MAX:
            return self._socket.send(b"".join(buffers[:2]))
        return self._socket.send(buffers[0])

    def _receive_exactly(self, size: int, deadline: float) -> memoryview:
        view = memoryview(bytearray(size))
        at = 0
        try:
            while at < size:
                self._socket.settimeout(self._remaining(deadline))
                count = self._socket.recv_into(view[at:])
                if count == 0:
                    self.close()
                    raise ClosedByBroker(self.address)
                at += count
        except TimeoutError:
            raise self._timed_out() from None
        except OSError as error:
            raise self._broken(error) from error
        return view

    def _remaining(self, deadline: float) -> float:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        return remaining

    def _timed_out(self) -> RequestTimedOut:
        self.close()
        return RequestTimedOut(f"request to {self.address}", self._settings.request_timeout_ms)

    def _broken(self, error: OSError) -> ClientError:
        """With TLS 1.3 a client's certificate is refused after the handshake."""
        refused = _refused_by_alert(self.address, error)
        if refused is not None:
            self.close()
            return refused
        return self._failed(error.strerror or str(error))

    def _failed(self, reason: str) -> ConnectionFailed:
        self.close()
        return ConnectionFailed(self.address, reason)

    def _wrong_protocol(self, speaks: str) -> WrongProtocol:
        return WrongProtocol(self.address, self._settings.security.protocol, speaks)

    def _malformed(self, reason: str) -> MalformedAnswer:
        self.close()
        return MalformedAnswer(self.address, reason)


def _refused_by_alert(address: str, error: OSError) -> AuthenticationFailed | None:
    reason = str(getattr(error, "reason", None) or "")
    if not isinstance(error, ssl.SSLError) or not reason.endswith(_REFUSING_ALERTS):
        return None
    return AuthenticationFailed(
        address, f"it refuses the client's certificate, or lack of one ({reason})"
    )


def _first_request(settings: ClientSettings) -> bytes:
    """Return an ApiVersions request, as every connection begins with."""
    head = request_header(
        ApiKey.API_VERSIONS, 0, correlation_id=0, client_id=settings.client_id
    ) + encode_request(ApiKey.API_VERSIONS, 0, {})
    return _SIZE.pack(len(head)) + head


def _other_protocol(head: bytes) -> str | None:
    names = (text for start, text in _OTHER_PROTOCOLS.items() if head.startswith(start))
    return next(names, None)


def _connect(host: str, port: int, settings: ClientSettings) -> socket.socket:
    address = f"{host}:{port}"
    try:
        connected = socket.create_connection(
            (host, port), timeout=settings.connect_timeout_ms / 1000
        )
    except TimeoutError:
        reason = f"no connection within {settings.connect_timeout_ms} ms"
        raise ConnectionFailed(address, reason) from None
    except (OSError, UnicodeError) as error:
        raise ConnectionFailed(address, getattr(error, "strerror", None) or str(error)) from error
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        return settings.security.wrap(connected, host)
    except ssl.SSLCertVerificationError as error:
        connected.close()
        reason = f"its certificate is not accepted: {error.verify_message}"
        raise CertificateRefused(address, reason) from error
    except OSError as error:
        connected.close()
        refused = _refused_by_alert(address, error)
        if refused is not None:
            raise refused from error
        if answers_plainly(host, port, _first_request(settings)):
            protocol = settings.security.protocol
            raise WrongProtocol(address, protocol, "has no TLS") from error
        reason = f"no TLS: {getattr(error, 'reason', None) or error.strerror or error}"
        raise ConnectionFailed(address, reason) from error
    except ConfigError:
        connected.close()
        raise
