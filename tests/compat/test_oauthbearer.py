"""OAUTHBEARER with stock clients: tokens good and bad, sessions that end, keys that change."""

import http.server
import json
import ssl
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from harness.node import NodeProcess
from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.access.issuing import Pair, new_authority, new_server
from tests.access.provider import AUDIENCE, ISSUER, Provider
from tests.compat.java_tools import tool

with warnings.catch_warnings():  # it reads its own files in a deprecated way when imported
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.timeout(300),
]
Settings = dict[str, Any]
SHORT_SECONDS = 5


class KeysServer:
    """Publishes a set of keys over HTTPS; `document` may change at any time."""

    def __init__(self, certificate: Path) -> None:
        self.document = b"{}"
        self.status = 200
        self.asked = 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked += 1
                self.send_response(outer.status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", str(len(outer.document)))
                self.end_headers()
                self.wfile.write(outer.document)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Place:
    """A node that takes tokens, its provider, and clients' settings."""

    def __init__(self, directory: Path, **security: object) -> None:
        self.provider = Provider()
        self.ca = directory / "ca.pem"
        authority = new_authority("tests", datetime.now(UTC))
        self.ca.write_bytes(authority.certificate)
        self.certificate = directory / "server.pem"
        self._issue(authority)
        self.keys_file = directory / "keys.json"
        self.keys_file.write_bytes(self.provider.document())
        self.port = free_port()
        self.keys = KeysServer(self.certificate)
        self.node = NodeProcess(directory / "node", settings=self._settings(security))

    def _issue(self, authority: Pair) -> None:
        server = new_server(authority, ["localhost", "127.0.0.1"], datetime.now(UTC))
        self.certificate.touch(mode=0o600)
        self.certificate.write_bytes(server.certificate + server.key)

    def _settings(self, security: dict[str, object]) -> dict[str, dict[str, object]]:
        keys: dict[str, object] = {"sasl_oauthbearer_jwks_file": str(self.keys_file)}
        if security.pop("by_url", False):
            keys = {
                "sasl_oauthbearer_jwks_url": f"https://localhost:{self.keys.port}/keys?a=b",
                "sasl_oauthbearer_jwks_authority_file": str(self.ca),
            }
        return {
            "node": {"listeners": [f"TOKENS://127.0.0.1:{self.port}"]},
            "security": {
                "listener_security_protocol_map": ["TOKENS:SASL_SSL"],
                "ssl_certificate_file": str(self.certificate),
                "ssl_key_file": str(self.certificate),
                "sasl_enabled_mechanisms": ["OAUTHBEARER", "SCRAM-SHA-512"],
                "sasl_oauthbearer_expected_issuer": ISSUER,
                "sasl_oauthbearer_expected_audience": [AUDIENCE],
                **keys,
                **security,
            },
        }

    def librdkafka(self, token: Callable[[], str], *, seconds: float = 300) -> Settings:
        """Settings of a client that gets its tokens from a function, good for so long."""
        return {
            "bootstrap.servers": f"127.0.0.1:{self.port}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca),
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (token(), time.time() + seconds),
            "log_level": 0,
        }

    def __enter__(self) -> "Place":
        self.node.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.node.__exit__(*error)
        self.keys.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with Place(tmp_path_factory.mktemp("tokens")) as place:
        yield place


def create(place: Place, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": place.node.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(UNTIL_SECONDS)


def is_let_in(place: Place, token: str) -> bool:
    """Whether a client with this token gets an answer; False once it says why not."""
    errors: list[str] = []
    settings = place.librdkafka(lambda: token)
    asks = Producer(settings | {"error_cb": lambda error: errors.append(error.name())})
    for _ in range(60):
        asks.poll(0.05)
        if "_AUTHENTICATION" in errors:
            return False
        try:
            return bool(asks.list_topics(timeout=0.5).brokers)
        except KafkaException:
            continue
    raise AssertionError("neither an answer nor an error")


@pytest.mark.parametrize(("name", "algorithm"), [("rsa", "RS256"), ("ec", "ES256")])
def test_librdkafka_comes_in_by_a_token(place: Place, name: str, algorithm: str) -> None:
    create(place, f"by-{name}")
    settings = place.librdkafka(lambda: place.provider.token(name, algorithm))
    producer = Producer(settings)
    for number in range(100):
        producer.produce(f"by-{name}", b"%d" % number)
    assert producer.flush(UNTIL_SECONDS) == 0
    consumer = Consumer(settings | {"group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([f"by-{name}"])
    try:
        for number in range(100):
            message = consumer.poll(UNTIL_SECONDS)
            assert message is not None
            assert (message.error(), message.value()) == (None, b"%d" % number)
    finally:
        consumer.close()


def test_kafka_python_comes_in_by_a_token(place: Place) -> None:
    class Tokens:
        def token(self) -> str:
            return place.provider.token()

        def extensions(self) -> dict[str, str]:
            return {"trace": "abc"}

    create(place, "python")
    settings: Settings = {
        "bootstrap_servers": f"127.0.0.1:{place.port}",
        "security_protocol": "SASL_SSL",
        "ssl_context": ssl.create_default_context(cafile=place.ca),
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": python_tokens(Tokens),
    }
    producer = KafkaProducer(**settings)
    producer.send("python", b"value").get(UNTIL_SECONDS)
    producer.close()
    consumer = KafkaConsumer("python", auto_offset_reset="earliest", **settings)
    assert next(consumer).value == b"value"
    consumer.close()


def python_tokens(tokens: type) -> object:
    """Return the same as a provider of kafka-python's."""
    from kafka.net.sasl.oauth import AbstractTokenProvider

    return type("Tokens", (tokens, AbstractTokenProvider), {})()


@pytest.mark.parametrize(
    "token",
    [
        lambda provider: provider.token(exp=int(time.time()) - 60),
        lambda provider: provider.token(aud="another"),
        lambda provider: provider.token(iss="https://another.example"),
        lambda provider: Provider().token(),
        lambda provider: provider.token("rsa", "RS512"),
        lambda provider: provider.token(pad="x" * 20_000),
    ],
    ids=["expired", "audience", "issuer", "stranger", "algorithm", "oversized"],
)
def test_a_bad_token_lets_nobody_in(place: Place, token: Callable[[Provider], str]) -> None:
    assert not is_let_in(place, token(place.provider))


def test_a_session_ends_with_its_token_and_is_renewed_while_records_are_sent(place: Place) -> None:
    create(place, "renewed")
    made: list[str] = []

    def token() -> str:
        made.append(place.provider.token(exp=int(time.time()) + SHORT_SECONDS))
        return made[-1]

    failures: list[Any] = []
    settings = place.librdkafka(token, seconds=SHORT_SECONDS) | {"error_cb": failures.append}
    producer = Producer(settings)
    delivered: list[Any] = []
    end = time.monotonic() + 5 * SHORT_SECONDS
    pause = threading.Event()
    while time.monotonic() < end:
        producer.produce("renewed", b"x", on_delivery=lambda error, _: delivered.append(error))
        producer.poll(0.02)
        pause.wait(0.02)
    assert producer.flush(UNTIL_SECONDS) == 0
    assert set(delivered) == {None}
    assert len(made) >= 4  # it had to prove again who it is
    assert not failures


def test_keys_of_a_file_change_while_the_node_runs(tmp_path: Path) -> None:
    with Place(tmp_path) as place:
        assert is_let_in(place, place.provider.token())
        other = Provider()
        place.keys_file.write_bytes(other.document())
        assert wait_until(lambda: is_let_in(place, other.token()), UNTIL_SECONDS)
        assert not is_let_in(place, place.provider.token())
        place.keys_file.write_bytes(b"broken")
        said = "a changed file is not used"
        assert wait_until(lambda: said in place.node.log_file.read_text(), UNTIL_SECONDS)
        assert is_let_in(place, other.token())


def test_keys_are_fetched_and_until_then_no_token_is_good(tmp_path: Path) -> None:
    place = Place(tmp_path, by_url=True)
    place.keys.status = 302  # a redirect is not followed
    place.keys.document = place.provider.document("rsa")
    with place:
        assert wait_until(lambda: place.keys.asked > 3, UNTIL_SECONDS)
        assert not is_let_in(place, place.provider.token())
        place.keys.status = 200
        assert wait_until(lambda: is_let_in(place, place.provider.token()), UNTIL_SECONDS)
        place.keys.document = json.dumps(
            {"keys": [place.provider.public("rsa"), place.provider.public("ec")]}
        ).encode()
        asked = place.keys.asked
        # The provider has a new key: the first token that names it has the set fetched anew.
        new = place.provider.token("ec", "ES256")
        assert wait_until(lambda: is_let_in(place, new), UNTIL_SECONDS)
        assert place.keys.asked > asked
        log = place.node.log_file.read_text()
        assert "not fetched, tried again: status 302" in log
        assert new not in log


def test_keys_of_a_server_that_nobody_vouches_for_are_not_taken(tmp_path: Path) -> None:
    place = Place(tmp_path, by_url=True)
    place.keys.document = place.provider.document()
    stranger = new_authority("stranger", datetime.now(UTC))
    (tmp_path / "stranger.pem").write_bytes(stranger.certificate)
    text = place.node.config.read_text()
    wrong = f'sasl_oauthbearer_jwks_authority_file = "{tmp_path}/stranger.pem"'
    right = f'sasl_oauthbearer_jwks_authority_file = "{place.ca}"'
    assert right in text
    place.node.config.write_text(text.replace(right, wrong))
    with place:
        said = "certificate verify failed"
        assert wait_until(lambda: said in place.node.log_file.read_text(), UNTIL_SECONDS)
        assert not is_let_in(place, place.provider.token())
    assert place.keys.asked == 0


def java(place: Place, path: Path, token: str) -> str:
    """Write the settings of Kafka's own client, which reads the token from a file."""
    (path / "token").write_text(token)
    settings = path / "java.properties"
    package = "org.apache.kafka.common.security.oauthbearer"
    settings.write_text(
        f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={place.ca}\n"
        f"sasl.mechanism=OAUTHBEARER\n"
        f"sasl.jaas.config={package}.OAuthBearerLoginModule required;\n"
        f"sasl.login.callback.handler.class={package}.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url=file://{path}/token\n"
    )
    return str(settings)


@pytest.mark.compat
def test_kafkas_tools_come_in_by_a_token(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file://{tmp_path}/token"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", allowed)
    create(place, "java")
    listing = ("--bootstrap-server", f"localhost:{place.port}", "--list", "--command-config")
    assert "java" in tool("kafka-topics", *listing, java(place, tmp_path, place.provider.token()))
    stranger = java(place, tmp_path, Provider().token())
    assert "Authentication failed" in tool("kafka-topics", *listing, stranger, check=False)


@pytest.mark.compat
def test_tokens_that_nobody_has_signed_are_refused(place: Place, tmp_path: Path) -> None:
    config = tmp_path / "java.properties"
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    config.write_text(
        f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={place.ca}\n"
        f"sasl.mechanism=OAUTHBEARER\n"
        f'sasl.jaas.config={module} required unsecuredLoginStringClaim_sub="alice";\n'
    )
    listing = ("--bootstrap-server", f"localhost:{place.port}", "--list", "--command-config")
    said = tool("kafka-topics", *listing, str(config), check=False)
    assert "Authentication failed" in said
