"""What a store of S3 answers, and what it fails to answer, has the right name here."""

import threading
from collections.abc import Callable, Coroutine, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from penstock.base.errors import ConfigError
from penstock.runtime.io import object_store
from penstock.runtime.io.object_store import ObjectStoreByLibrary, S3Settings, open_s3
from penstock.tier.errors import (
    CredentialsRefused,
    LyingObject,
    ObjectNotFound,
    PreconditionFailed,
    StoreThrottled,
    StoreUnavailable,
    TierError,
)
from penstock.tier.port import ObjectStore, Plain
from tests.tier.store_contract import listed, run

CLOSE = 0
"""In place of a status: the connection is closed without an answer."""
SILENT = -1
"""In place of a status: no answer comes."""
SHORT = -2
"""In place of a status: fewer bytes come than were announced."""


class Answering(ThreadingHTTPServer):
    """A server that answers everything alike."""

    daemon_threads = True

    def __init__(self, status: int, code: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = status
        self.code = code
        self.request_count = 0
        self.ends = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Answering

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.request_count += 1
        match self.server.status:
            case 0:
                self.close_connection = True
            case -1:
                self.server.ends.wait()
                self.close_connection = True
            case -2:
                self._short()
            case status:
                self._error(status)

    def _short(self) -> None:
        self.send_response(206)
        for key, value in (
            ("content-length", "10"),
            ("content-range", "bytes 0-9/100"),
            ("etag", '"x"'),
            ("last-modified", "Sat, 28 Nov 2026 18:00:00 GMT"),
        ):
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(b"abc")
        self.close_connection = True

    def _error(self, status: int) -> None:
        body = f"<Error><Code>{self.server.code}</Code><Message>m</Message></Error>".encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_HEAD = _answer

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def serve() -> Iterator[Callable[[int, str], tuple[Answering, ObjectStoreByLibrary]]]:
    servers: list[Answering] = []

    def begin(status: int, code: str = "") -> tuple[Answering, ObjectStoreByLibrary]:
        server = Answering(status, code)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        settings = S3Settings(
            bucket="b",
            endpoint=f"http://127.0.0.1:{server.server_port}",
            region="us-east-1",
            access_key_id="K",
            secret_access_key="S",
            request_ms=300 if status == SILENT else 60_000,
            retries=1,
            retry_ms=100 if status == SILENT else 60_000,
        )
        return server, open_s3(settings)

    yield begin
    for server in servers:
        server.ends.set()
        server.shutdown()
        server.server_close()


Call = Callable[[ObjectStore], Coroutine[Any, Any, object]]
CALLS: dict[str, Call] = {
    "put": lambda store: store.put("a/one", [b"x"], Plain.ABSENT),
    "read": lambda store: store.read("a/one", 0, 10),
    "look": lambda store: store.look("a/one"),
    "list": lambda store: listed(store, "a"),
    "delete": lambda store: store.delete(["a/one", "a/two"]),
}
EVERY = tuple(CALLS)
CASES: list[tuple[int, str, type[TierError], tuple[str, ...]]] = [
    (503, "SlowDown", StoreThrottled, EVERY),
    (429, "TooManyRequests", StoreThrottled, EVERY),
    (500, "InternalError", StoreUnavailable, EVERY),
    (403, "AccessDenied", CredentialsRefused, EVERY),
    (401, "Unauthorized", CredentialsRefused, EVERY),
    (400, "ExpiredToken", CredentialsRefused, ("put", "read", "list", "delete")),
    (412, "PreconditionFailed", PreconditionFailed, ("put",)),
    (409, "ConditionalRequestConflict", PreconditionFailed, ("put",)),
    (404, "NoSuchKey", ObjectNotFound, ("read", "look")),
    (404, "NoSuchBucket", StoreUnavailable, ("put", "read", "list", "delete")),
    (416, "InvalidRange", LyingObject, ("read",)),
    (CLOSE, "", StoreUnavailable, EVERY),
    (SILENT, "", StoreUnavailable, EVERY),
    (SHORT, "", StoreUnavailable, ("read",)),
]


@pytest.mark.parametrize(
    ("status", "code", "error", "call"),
    [(*case[:3], call) for case in CASES for call in case[3]],
)
def test_an_answer_of_a_store_has_the_right_name(
    serve: Callable[[int, str], tuple[Answering, ObjectStoreByLibrary]],
    status: int,
    code: str,
    error: type[TierError],
    call: str,
) -> None:
    server, store = serve(status, code)
    with pytest.raises(error) as caught:
        run(CALLS[call](store))
    assert type(caught.value) is error
    assert 1 <= server.request_count <= 2


def test_a_missing_package_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "find_spec", lambda _: None)
    settings = S3Settings(
        bucket="b", endpoint="http://x", region="r", access_key_id="K", secret_access_key="S"
    )
    with pytest.raises(ConfigError, match="install"):
        open_s3(settings)
