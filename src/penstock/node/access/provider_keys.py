"""The public keys of an identity provider: of a file, or fetched over HTTPS again and again.

    fetched ── an hour ──► fetched          a token names an unknown key: fetched soon, for one that
       │                      ▲             the provider has made meanwhile
       └─ failed ─ 100 ms, 200 ms … 10 s ───┘

Until the first set is there no token is good, and a set that can not be fetched or read anew leaves
the one before in force. The node starts and serves other mechanisms meanwhile.

Only HTTPS, only what the URL names: redirects are failures, as are answers above a MiB.

Source: Kafka `RefreshingHttpsJwks`; its defaults for refresh and back-off. KIP-768.
"""

import asyncio
import logging
import ssl
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import h11

from penstock.access.bearer import Bearer, CheckToken
from penstock.access.errors import MalformedKeys
from penstock.access.tokens import Keys, UnknownKey, parse_keys
from penstock.base.errors import ConfigError

KEYS_BYTES_MAX = 1 << 20
REFRESH_SECONDS = 3_600.0
BACK_OFF_SECONDS, BACK_OFF_SECONDS_MAX = 0.1, 10.0
UNKNOWN_SECONDS_MIN = 10.0
"""Between two fetches because of unknown keys: anybody can make tokens that name some."""
FETCH_SECONDS_MAX = 10.0
READ_BYTES = 64 << 10
OK = 200

log = logging.getLogger(__name__)


class FetchFailed(Exception):
    """The provider has not answered with its keys."""


def read_keys(path: str) -> Keys:
    """Return the keys of a file. Raises ConfigError."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(KEYS_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(
            f"security.sasl_oauthbearer_jwks_file {path} can not be read: {error.strerror}"
        ) from error
    return _parsed(path, data)


def _parsed(where: str, data: bytes) -> Keys:
    if len(data) > KEYS_BYTES_MAX:
        raise ConfigError(f"the keys of {where} have more than {KEYS_BYTES_MAX} bytes")
    try:
        return parse_keys(data)
    except MalformedKeys as error:
        raise ConfigError(f"the keys of {where} can not be used: {error}") from error


class FetchedKeys:
    """The keys of a URL; `start` and `stop` on the loop."""

    def __init__(self, url: str, authority_file: str) -> None:
        """Raises ConfigError for an address or an authority that can not be used."""
        parsed_url(url)
        self._url = url
        try:
            self._context = ssl.create_default_context(cafile=authority_file or None)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"security.sasl_oauthbearer_jwks_authority_file {authority_file}: {error}"
            ) from error
        self._keys: Keys = {}
        self._is_wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def keys(self) -> Keys:
        """Return the newest keys; empty before the first fetch."""
        return self._keys

    def want(self) -> None:
        """Fetch before it is time: a token has named a key that is not there."""
        self._is_wanted.set()

    def checking(self, check: CheckToken) -> CheckToken:
        """Return a check that has the keys fetched when a token names one that is not there."""

        def checked(token: str) -> Bearer:
            try:
                return check(token)
            except UnknownKey:
                self.want()
                raise

        return checked

    def start(self) -> None:
        """Begin to fetch."""
        self._task = asyncio.get_running_loop().create_task(self._keep())

    def stop(self) -> None:
        """Fetch no more."""
        if self._task is not None:
            self._task.cancel()

    async def _keep(self) -> None:
        back_off = BACK_OFF_SECONDS
        while True:
            try:
                self._keys = _parsed(self._url, await fetch(self._url, self._context))
            except (FetchFailed, ConfigError) as error:
                if back_off == BACK_OFF_SECONDS:
                    log.warning("keys of %s: not fetched, tried again: %s", self._url, error)
                await asyncio.sleep(back_off)
                back_off = min(2 * back_off, BACK_OFF_SECONDS_MAX)
            else:
                log.info("keys of %s: %d", self._url, len(self._keys))
                back_off = BACK_OFF_SECONDS
                await self._until_due()

    async def _until_due(self) -> None:
        await asyncio.sleep(UNKNOWN_SECONDS_MIN)
        try:
            await asyncio.wait_for(self._is_wanted.wait(), REFRESH_SECONDS - UNKNOWN_SECONDS_MIN)
        except TimeoutError:
            return
        finally:
            self._is_wanted.clear()


def parsed_url(url: str) -> SplitResult:
    """Return the parts of an address of HTTPS. Raises ConfigError."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise ConfigError(_no_address(url)) from error
    if not is_good or parts.username is not None or not url.isascii():
        raise ConfigError(_no_address(url))
    return parts


def _no_address(url: str) -> str:
    return (
        f"security.sasl_oauthbearer_jwks_url {url!r} is no address of the form"
        " https://host/path: keys that come by another way could be anybody's"
    )


async def fetch(url: str, context: ssl.SSLContext) -> bytes:
    """Return what is at an address. Raises FetchFailed."""
    parts = parsed_url(url)
    host, port = str(parts.hostname), parts.port or 443
    try:
        async with asyncio.timeout(FETCH_SECONDS_MAX):
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
            try:
                target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                return await _exchange(reader, writer, parts.netloc, target)
            finally:
                writer.close()
    except (OSError, TimeoutError, EOFError, ValueError, h11.ProtocolError) as error:
        raise FetchFailed(str(error) or type(error).__name__) from error


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, target: str
) -> bytes:
    connection = h11.Connection(h11.CLIENT)
    headers = [("Host", host), ("Accept", "application/json"), ("Connection", "close")]
    head = h11.Request(method="GET", target=target, headers=headers)
    for event in (head, h11.EndOfMessage()):
        writer.write(connection.send(event) or b"")
    body = bytearray()
    while True:
        match connection.next_event():
            case h11.NEED_DATA:
                connection.receive_data(await reader.read(READ_BYTES))
            case h11.Response(status_code=status) if status != OK:
                raise FetchFailed(f"status {status}")
            case h11.Data(data=data):
                body += data
                if len(body) > KEYS_BYTES_MAX:
                    raise FetchFailed(f"more than {KEYS_BYTES_MAX} bytes")
            case h11.EndOfMessage():
                return bytes(body)
            case h11.ConnectionClosed() | h11.PAUSED:
                raise FetchFailed("the connection ended")
            case _:
                continue  # the head of a good answer
