"""`penstock --client-config` with OAUTHBEARER: tokens of a file, and of a provider."""

import base64
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from confluent_kafka import KafkaException, Producer

from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.base.errors import ConfigError
from penstock.client.access.bearer import ANSWER_BYTES_MAX, ProviderTokens
from penstock.client.errors import AuthenticationFailed
from penstock.client.security import ClientSecurity, read_security
from tests.cli.launched import penstock
from tests.compat.test_oauthbearer import Place

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

ID, SECRET = "reader", "a secret: with ümlauts"


class TokenServer:
    """The token endpoint of a provider; what it answers may change at any time."""

    def __init__(self, place: Place) -> None:
        self.status, self.seconds = 200, 300.0
        self.answer: bytes | None = None
        """In place of a good token."""
        self.asked: list[dict[str, Any]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                scheme, _, proof = self.headers["Authorization"].partition(" ")
                assert scheme == "Basic"
                outer.asked.append(
                    {"proof": base64.b64decode(proof).decode()} | parse_qs(body.decode())
                )
                good = {"access_token": place.provider.token(), "expires_in": outer.seconds}
                answer = json.dumps(good).encode() if outer.answer is None else outer.answer
                self.send_response(outer.status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(place.certificate)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://localhost:{self._server.server_address[1]}/token"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with Place(tmp_path_factory.mktemp("tokens")) as place:
        yield place


@pytest.fixture
def server(place: Place) -> Iterator[TokenServer]:
    server = TokenServer(place)
    yield server
    server.close()


def tokens(place: Place, server: TokenServer) -> ProviderTokens:
    return ProviderTokens(
        url=server.url, client_id=ID, client_secret=SECRET, authority_file=str(place.ca)
    )


def properties(directory: Path, place: Place, **more: str) -> Path:
    settings = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(place.ca),
        "sasl.mechanism": "OAUTHBEARER",
    } | {name.replace("_", "."): value for name, value in more.items()}
    path = directory / "client.properties"
    path.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
    return path


def of_provider(server: TokenServer, place: Place) -> dict[str, str]:
    return {
        "sasl_oauthbearer_method": "oidc",
        "sasl_oauthbearer_token_endpoint_url": server.url,
        "sasl_oauthbearer_client_id": ID,
        "sasl_oauthbearer_client_secret": SECRET,
        "sasl_oauthbearer_scope": "logs read",
        "https_ca_location": str(place.ca),
    }


def test_a_command_comes_in_by_a_token_of_a_provider(
    place: Place, server: TokenServer, tmp_path: Path
) -> None:
    path = properties(tmp_path, place, **of_provider(server, place))
    bootstrap = f"127.0.0.1:{place.port}"
    made = penstock("--client-config", path, "topic", "create", "by-cli", "--bootstrap", bootstrap)
    assert (made.returncode, made.stderr) == (0, b"")
    assert server.asked == [
        {"proof": f"{ID}:{SECRET}", "grant_type": ["client_credentials"], "scope": ["logs read"]}
    ], "once for all connections of the command"


def test_librdkafka_takes_the_same_file(place: Place, server: TokenServer, tmp_path: Path) -> None:
    path = properties(tmp_path, place, **of_provider(server, place))
    settings = dict(line.split(" = ", 1) for line in path.read_text().splitlines())
    said: list[object] = []
    producer = Producer(
        settings
        | {"bootstrap.servers": f"127.0.0.1:{place.port}", "error_cb": said.append, "log_level": 0}
    )

    def has_answer_or_error() -> bool:
        producer.poll(0)
        try:
            return bool(producer.list_topics(timeout=1).brokers)
        except KafkaException:  # it has no token yet, or never gets one
            return bool(said)

    has_ended = wait_until(has_answer_or_error, UNTIL_SECONDS)
    assert not said, said
    assert has_ended
    (asked,) = server.asked
    assert asked == {
        "proof": f"{ID}:{SECRET}",
        "grant_type": ["client_credentials"],
        "scope": ["logs read"],
    }


def test_a_command_comes_in_by_the_token_of_a_file(place: Place, tmp_path: Path) -> None:
    path = properties(tmp_path, place, sasl_oauthbearer_token_file="token")
    bootstrap = "--bootstrap", f"127.0.0.1:{place.port}"
    token = tmp_path / "token"
    token.write_text(place.provider.token() + "\n")
    assert penstock("--client-config", path, "topic", "list", *bootstrap).returncode == 0
    token.write_text(place.provider.token(sub="bob", exp=1))
    refused = penstock("--client-config", path, "topic", "list", *bootstrap)
    assert refused.returncode != 0
    assert b"does not let this client in" in refused.stderr
    token.write_text("two tokens")
    refused = penstock("--client-config", path, "topic", "list", *bootstrap)
    assert b"has no token, or not one" in refused.stderr
    assert b"Traceback" not in refused.stderr


def test_a_token_is_used_until_most_of_its_time_is_over(
    place: Place, server: TokenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    source = tokens(place, server)
    first = source.get()
    now += 239
    assert source.get() == first
    assert len(server.asked) == 1
    now += 2
    server.seconds = 0
    source.get()
    source.get()
    assert len(server.asked) == 3, "who does not say for how long is asked each time"


@pytest.mark.parametrize(
    ("status", "answer", "reason"),
    [
        (401, b'{"error": "invalid_client"}', r"status 401 \(invalid_client\)"),
        (302, b"", "status 302"),
        (200, b"", "its answer has no token"),
        (200, b"{}", "its answer has no token"),
        (200, b'{"access_token": 7}', "its answer has no token"),
        (200, b'{"access_token": "a\\u0001,auth=b"}', "characters that a token has not"),
        (200, b'{"access_token": ""}', "characters that a token has not"),
        (200, b" " * (ANSWER_BYTES_MAX + 1), "status 200"),
    ],
)
def test_a_provider_that_gives_no_token_is_said(
    place: Place, server: TokenServer, status: int, answer: bytes, reason: str
) -> None:
    server.status, server.answer = status, answer
    with pytest.raises(AuthenticationFailed, match=reason) as failed:
        tokens(place, server).get()
    assert SECRET not in str(failed.value)
    assert len(server.asked) == 1, "nowhere else"


def test_a_provider_that_is_not_there_or_another_is_said(place: Place, server: TokenServer) -> None:
    source = tokens(place, server)
    source.authority_file = ""
    with pytest.raises(AuthenticationFailed, match=r"(?i)certificate"):
        source.get()
    assert server.asked == [], "the secret is for the provider alone"
    server.close()
    with pytest.raises(AuthenticationFailed, match="refused"):
        tokens(place, server).get()


@pytest.mark.parametrize(
    "url", ["http://localhost/token", "https://", "https://a:b@host/", "https://h:0", "https://[x"]
)
def test_an_address_that_can_not_be_used_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"no address of the form"):
        ProviderTokens(url=url, client_id=ID, client_secret=SECRET)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("security.protocol=SASL_PLAINTEXT", "needs SASL_SSL"),
        ("", r"needs sasl\.oauthbearer\.token\.file, or"),
        ("sasl.oauthbearer.method=oidc", r"needs sasl\.oauthbearer\.token\.endpoint\.url"),
        ("sasl.oauthbearer.method=oidc\nsasl.oauthbearer.token.file=x", r"token\.file, or"),
        ("sasl.oauthbearer.method=other", "is oidc, or default"),
    ],
)
def test_a_file_that_does_not_say_where_tokens_are_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "client.properties"
    path.write_text(f"security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n{text}\n")
    with pytest.raises(ConfigError, match=message):
        read_security(path)


def test_secrets_are_not_shown() -> None:
    shown = repr(
        ClientSecurity(
            protocol="SASL_SSL",
            mechanism="OAUTHBEARER",
            method="oidc",
            token_url="https://localhost/token",
            client_id=ID,
            client_secret=SECRET,
        )
    )
    assert ID in shown
    assert SECRET not in shown
