"""A client of etcd's v3 API over its JSON gateway: one request, one answer or one clear error.

A request goes to the endpoint that answered last. If that does not answer, the next one is chosen
and EtcdUnavailable is raised; only the caller knows whether a retry is safe, as the request may
have been carried out. EtcdRefused means that it was not.

aiohttp is imported when a client is created, so that installations without etcd do not need it.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, TypeVar

import msgspec

from penstock.base.errors import ConfigError, PlatformError
from penstock.runtime.etcd.config import EtcdConfig
from penstock.runtime.etcd.wire import (
    EmptyAnswer,
    GatewayError,
    KeepAliveAnswer,
    LeaseAnswer,
    Request,
    TokenAnswer,
    TxnAnswer,
    WatchAnswer,
    WatchMessage,
    decode,
    encode,
)

if TYPE_CHECKING:
    import aiohttp

A = TypeVar("A")

WATCH_MESSAGE_BYTES_MAX = 64 << 20
"""etcd splits the messages of a watch (`fragment`) at 1.5 MiB or one revision; base64 and JSON add
a third."""

CONNECTIONS_MAX = 8

_REFUSALS = frozenset({3, 5, 6, 7, 8, 9, 11, 12})
"""gRPC codes of requests that were certainly not carried out: invalid argument, not found, exists,
permission, resource exhausted, precondition, out of range, not implemented."""
_UNAUTHENTICATED = 16


class EtcdUnavailable(PlatformError):
    """No usable answer; whether the request was carried out is unknown."""


class EtcdRefused(PlatformError):
    """etcd refused and changed nothing, except that the write which fills its database is kept."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"etcd refused: {message}{_ADVICE.get(code, '')}")
        self.code = code


_ADVICE = {
    7: "; grant the user read and write access to the key prefix",
    8: "; where its database is full: compact and defragment it, then disarm the alarm",
}


class EtcdClient:
    """See the module. Use it on one event loop and `close` it there."""

    def __init__(self, config: EtcdConfig) -> None:
        """Raises ConfigError if aiohttp is missing or a file cannot be used."""
        try:
            import aiohttp as library  # noqa: PLC0415  only where etcd is chosen
        except ImportError as error:
            raise ConfigError(
                "consensus on etcd needs aiohttp: pip install 'penstock[etcd]'"
            ) from error
        self._aiohttp = library
        self._config = config
        self._tls: ssl.SSLContext | None = config.tls_context()
        self._password = config.read_password() if config.user else ""
        self._token = ""
        self._endpoint_at = 0
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    @property
    def endpoint(self) -> str:
        """Address that the next request goes to."""
        return self._config.endpoints[self._endpoint_at].rstrip("/")

    async def txn(self, request: Request) -> TxnAnswer:
        """Compare, then carry out one of two lists of operations, atomically."""
        return await self._call("/v3/kv/txn", request, TxnAnswer)

    async def grant(self, ttl_s: int) -> LeaseAnswer:
        """Grant a lease; the answer has the time-to-live that etcd really gives."""
        return await self._call("/v3/lease/grant", {"TTL": str(ttl_s), "ID": "0"}, LeaseAnswer)

    async def keep_alive(self, lease_id: int) -> LeaseAnswer:
        """Renew a lease; `ttl` 0 means that it has ended."""
        answer = await self._call("/v3/lease/keepalive", {"ID": str(lease_id)}, KeepAliveAnswer)
        return answer.result

    async def revoke(self, lease_id: int) -> None:
        """End a lease and delete its keys; one that has ended already is no error."""
        try:
            await self._call("/v3/lease/revoke", {"ID": str(lease_id)}, EmptyAnswer)
        except EtcdRefused as error:
            if error.code != 5:
                raise

    async def watch(
        self, key: bytes, range_end: bytes, *, start_revision: int, idle_ms: int
    ) -> AsyncGenerator[WatchAnswer | None, None]:
        """Yield changes from `start_revision` on, and None whenever `idle_ms` passed without any.

        Ends when etcd closes the stream. Raises EtcdUnavailable, EtcdRefused.
        """
        create = {
            "key": key,
            "range_end": range_end,
            "start_revision": str(start_revision),
            "fragment": True,
        }
        endpoint = self.endpoint
        buffer = bytearray()
        try:
            async with await self._post("/v3/watch", {"create_request": create}) as response:
                if response.status != 200:
                    self._fail(response.status, await response.read())
                while True:
                    try:
                        async with asyncio.timeout(idle_ms / 1000):
                            data = await response.content.readany()
                    except TimeoutError:
                        yield None
                        continue
                    if not data:
                        return
                    buffer += data
                    for line in _take_lines(buffer):
                        yield _watch_answer(line)
        except (self._aiohttp.ClientError, OSError) as error:
            raise self._lost(endpoint, error) from error

    async def close(self) -> None:
        """Close all connections; later requests fail."""
        self._is_closed = True
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _call(self, path: str, request: Request, kind: type[A]) -> A:
        endpoint = self.endpoint
        try:
            async with asyncio.timeout(self._config.request_timeout_ms / 1000):
                if self._config.user and not self._token and path != "/v3/auth/authenticate":
                    await self._authenticate()
                async with await self._post(path, request) as response:
                    data = await response.read()
                    status = response.status
        except (self._aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise self._lost(endpoint, error) from error
        except asyncio.CancelledError:
            self._lost(endpoint, "given up")  # the caller had less time: use another endpoint next
            raise
        if status != 200:
            self._fail(status, data)
        try:
            return decode(data, kind)
        except msgspec.DecodeError as error:
            raise self._lost(endpoint, error) from error

    async def _authenticate(self) -> None:
        request: Request = {"name": self._config.user, "password": self._password}
        self._token = (await self._call("/v3/auth/authenticate", request, TokenAnswer)).token

    async def _post(self, path: str, request: Request) -> "aiohttp.ClientResponse":
        if self._is_closed:
            raise EtcdUnavailable("the connection to etcd is closed: this process is stopping")
        if self._session is None:
            self._session = self._make_session()
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = self._token
        return await self._session.post(self.endpoint + path, data=encode(request), headers=headers)

    def _make_session(self) -> "aiohttp.ClientSession":
        library = self._aiohttp
        connector = library.TCPConnector(limit=CONNECTIONS_MAX, ssl=self._tls or True)
        connect_s = self._config.request_timeout_ms / 1000
        timeout = library.ClientTimeout(total=None, sock_connect=connect_s)
        session: aiohttp.ClientSession = library.ClientSession(
            connector=connector, timeout=timeout, trust_env=False
        )
        return session

    def _fail(self, status: int, data: bytes) -> None:
        """Raise the error that an answer other than 200 stands for."""
        try:
            found = decode(data, GatewayError)
        except msgspec.DecodeError:
            found = GatewayError(message=f"HTTP status {status}")
        text = found.message or found.error or f"HTTP status {status}"
        if found.code == _UNAUTHENTICATED or "invalid auth token" in text:
            self._token = ""  # it has expired; the next request gets a new one
            raise EtcdUnavailable(f"etcd at {self.endpoint}: {text}")
        if found.code in _REFUSALS:
            raise EtcdRefused(found.code, text)
        raise self._lost(self.endpoint, text)

    def _lost(self, endpoint: str, reason: object) -> EtcdUnavailable:
        """Choose the next endpoint, unless another request has done so; return the error."""
        if endpoint == self.endpoint:
            self._endpoint_at = (self._endpoint_at + 1) % len(self._config.endpoints)
        text = str(reason) or type(reason).__name__
        return EtcdUnavailable(f"etcd at {endpoint} does not answer: {text}")


def _take_lines(buffer: bytearray) -> list[bytes]:
    """Remove the whole lines from `buffer` and return them."""
    end = buffer.rfind(b"\n") + 1
    if not end and len(buffer) > WATCH_MESSAGE_BYTES_MAX:
        raise EtcdUnavailable(f"a watch message is larger than {WATCH_MESSAGE_BYTES_MAX} bytes")
    lines = bytes(buffer[:end]).splitlines()
    del buffer[:end]
    return [line for line in lines if line]


def _watch_answer(line: bytes) -> WatchAnswer:
    try:
        message = decode(line, WatchMessage)
    except msgspec.DecodeError as error:
        raise EtcdUnavailable(f"a watch message is not valid: {error}") from error
    if message.error is not None:
        raise EtcdUnavailable(f"etcd ended a watch: {message.error}")
    return message.result
