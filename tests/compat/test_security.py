"""TLS and SASL with stock clients: each mechanism right and wrong, certificates that are not
accepted, and certificates that change while clients work.
"""

import asyncio
import contextlib
import shutil
import ssl
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from harness.node import NodeProcess
from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS, wait_until
from tests.access.certificates import Authority
from tests.compat.java_tools import tool

with warnings.catch_warnings():  # it reads its own files in a deprecated way when imported
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl"),
]
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORD = "p:a=s,s"
PROTOCOLS = {
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "SASLTLS": "SASL_SSL",
    "SASLPLAIN": "SASL_PLAINTEXT",
    "SHORT": "SASL_SSL",
}
"""Listeners of the node; the first, `kafka`, is open."""
Settings = dict[str, Any]


class Secured:
    """A node with a listener of each kind, and the files of its clients."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory / "good")
        self.stranger = Authority(directory / "stranger", "stranger")
        self.server = self.authority.issue("server", "/CN=localhost")
        self.client = self.authority.issue("client", "/C=DE/O=A, B/CN=Reader One")
        users = directory / "users"
        users.write_text(f"alice:{PASSWORD}\n")
        users.chmod(0o600)
        self.ports = {name: free_port() for name in PROTOCOLS}
        self.node = NodeProcess(directory / "node", settings=self._settings(users))

    def _settings(self, users: Path) -> dict[str, dict[str, object]]:
        certificate, key = self.server
        return {
            "node": {
                "listeners": [f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()]
            },
            "security": {
                "listener_security_protocol_map": [f"{k}:{v}" for k, v in PROTOCOLS.items()],
                "listeners": [
                    "MUTUAL.ssl_client_auth=required",
                    "MUTUAL.ssl_principal_mapping_rules=RULE:^CN=(.*?),.*$/$1/L",
                    "SHORT.connections_max_reauth_ms=5000",
                ],
                "ssl_certificate_file": certificate,
                "ssl_key_file": key,
                "ssl_authority_file": self.authority.file,
                "sasl_enabled_mechanisms": list(MECHANISMS),
                "sasl_plain_users_file": str(users),
                "sasl_plain_without_tls": True,
                "scram_first_users_file": str(users),
            },
        }

    def librdkafka(self, listener: str, mechanism: str = "PLAIN", **more: str) -> Settings:
        settings: Settings = {
            "bootstrap.servers": f"127.0.0.1:{self.ports[listener]}",
            "security.protocol": PROTOCOLS[listener],
            "log_level": 0,
        }
        if PROTOCOLS[listener].endswith("SSL"):
            settings["ssl.ca.location"] = self.authority.file
        if PROTOCOLS[listener].startswith("SASL"):
            settings |= {
                "sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": PASSWORD,
            }  # fmt: skip
        return settings | {name.replace("_", "."): value for name, value in more.items()}

    def python(self, listener: str, mechanism: str, password: str = PASSWORD) -> Settings:
        """Settings that kafka-python and aiokafka share."""
        settings: Settings = {
            "bootstrap_servers": f"127.0.0.1:{self.ports[listener]}",
            "security_protocol": PROTOCOLS[listener],
        }
        if PROTOCOLS[listener].endswith("SSL"):
            settings["ssl_context"] = ssl.create_default_context(cafile=self.authority.file)
        if PROTOCOLS[listener].startswith("SASL"):
            settings |= {
                "sasl_mechanism": mechanism,
                "sasl_plain_username": "alice",
                "sasl_plain_password": password,
            }
        return settings


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    secured = Secured(tmp_path_factory.mktemp("security"))
    with secured.node:
        yield secured


@pytest.fixture
def topic(secured: Secured, request: pytest.FixtureRequest) -> str:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[:200]
    admin = AdminClient({"bootstrap.servers": secured.node.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(UNTIL_SECONDS)
    return name


def by_librdkafka(settings: Settings, topic: str, records: list[bytes]) -> list[bytes]:
    """Send records and read them back."""
    producer = Producer(settings)
    for value in records:
        producer.produce(topic, value)
    assert producer.flush(UNTIL_SECONDS) == 0
    consumer = Consumer(settings | {"group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    taken: list[bytes] = []
    try:
        while len(taken) < len(records):
            message = consumer.poll(UNTIL_SECONDS)
            assert message is not None
            assert message.error() is None, message.error()
            taken.append(message.value() or b"")
    finally:
        consumer.close()
    return taken


RECORDS = [b"a", bytes(900_000), *(b"%d" % number for number in range(500))]


def is_let_in(settings: Settings) -> bool:
    """Whether librdkafka gets an answer; False once it says why not."""
    errors: list[str] = []
    asks = Producer(settings | {"error_cb": lambda error: errors.append(error.name())})
    for _ in range(30):
        asks.poll(0.05)
        if {"_AUTHENTICATION", "_SSL", "_ALL_BROKERS_DOWN"} & set(errors):
            return False
        with contextlib.suppress(KafkaException):
            return bool(asks.list_topics(timeout=0.5).brokers)
    raise AssertionError("neither an answer nor an error")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", ["SASLTLS", "SASLPLAIN"])
def test_librdkafka_by_sasl(secured: Secured, topic: str, listener: str, mechanism: str) -> None:
    settings = secured.librdkafka(listener, mechanism)
    assert by_librdkafka(settings, topic, RECORDS) == RECORDS
    assert not is_let_in(settings | {"sasl.password": "wrong"})
    assert not is_let_in(settings | {"sasl.username": "nobody"})


def test_librdkafka_by_tls(secured: Secured, topic: str) -> None:
    settings = secured.librdkafka("TLS")
    assert by_librdkafka(settings, topic, RECORDS) == RECORDS
    assert not is_let_in(settings | {"ssl.ca.location": secured.stranger.file})


def with_certificate(settings: Settings, files: tuple[str, str]) -> Settings:
    return settings | {"ssl.certificate.location": files[0], "ssl.key.location": files[1]}


def test_librdkafka_by_its_certificate(secured: Secured, topic: str) -> None:
    settings = secured.librdkafka("MUTUAL")
    assert by_librdkafka(with_certificate(settings, secured.client), topic, RECORDS) == RECORDS
    assert not is_let_in(settings)
    strangers = secured.stranger.issue("client", "/CN=reader one")
    assert not is_let_in(with_certificate(settings, strangers))
    nobody = secured.authority.issue("unmapped", "/O=none")  # no rule says who that is
    assert not is_let_in(with_certificate(settings, nobody))


def test_a_certificate_that_has_expired_lets_nobody_in(secured: Secured) -> None:
    settings = secured.librdkafka("MUTUAL")
    expired = secured.authority.issue("expired", "/CN=reader one,", days=-1)
    assert not is_let_in(with_certificate(settings, expired))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", ["SASLTLS", "SASLPLAIN"])
def test_kafka_python(secured: Secured, topic: str, listener: str, mechanism: str) -> None:
    settings = secured.python(listener, mechanism)
    producer = KafkaProducer(**settings)
    for value in RECORDS:
        producer.send(topic, value)
    producer.flush(UNTIL_SECONDS)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", **settings)
    assert [next(consumer).value for _ in RECORDS] == RECORDS
    consumer.close()
    assert "SaslAuthenticationFailedError" in refused_by_kafka_python(secured, listener, mechanism)


def refused_by_kafka_python(secured: Secured, listener: str, mechanism: str) -> str:
    """What a producer with a wrong password says; in a process, as it leaves its sockets open."""
    settings = secured.python(listener, mechanism, "wrong") | {"bootstrap_timeout_ms": 500}
    if settings.pop("ssl_context", None):
        settings["ssl_cafile"] = secured.authority.file
    code = f"import logging; logging.basicConfig(); import kafka; kafka.KafkaProducer(**{settings})"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True, text=True, check=False, timeout=UNTIL_SECONDS,
    )  # fmt: skip
    assert done.returncode == 1
    return done.stderr


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", ["SASLTLS", "SASLPLAIN"])
def test_aiokafka(secured: Secured, topic: str, listener: str, mechanism: str) -> None:
    async def scenario() -> None:
        settings = secured.python(listener, mechanism)
        async with AIOKafkaProducer(**settings) as producer:
            for value in RECORDS:
                await producer.send(topic, value)
            await producer.flush()
        consumer = AIOKafkaConsumer(topic, auto_offset_reset="earliest", **settings)
        async with consumer:
            assert [(await consumer.getone()).value for _ in RECORDS] == RECORDS
        wrong = AIOKafkaProducer(**secured.python(listener, mechanism, "wrong"))
        with pytest.raises(Exception, match=r"[Aa]uth|bootstrap"):
            await wrong.start()
        await wrong.stop()

    asyncio.run(scenario())


def test_sessions_are_renewed_while_records_are_sent(secured: Secured, topic: str) -> None:
    failures: list[Any] = []
    settings = secured.librdkafka("SHORT", "SCRAM-SHA-512")
    producer = Producer(settings | {"error_cb": failures.append})
    delivered: list[Any] = []

    def note(error: Any, _message: Any) -> None:
        delivered.append(error)

    began = threading.Event()
    for number in range(120):  # 12 seconds: more than two sessions
        producer.produce(topic, b"%d" % number, on_delivery=note)
        producer.poll(0.1)
        began.wait(0.1)
    assert producer.flush(UNTIL_SECONDS) == 0
    assert delivered == [None] * 120
    assert not failures


def test_a_certificate_is_renewed_under_load(tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    with secured.node:
        settings = secured.librdkafka("TLS")
        admin = AdminClient(settings)
        admin.create_topics([NewTopic("renewed", 1, 1)])["renewed"].result(UNTIL_SECONDS)
        producer = Producer(settings | {"linger.ms": 0})
        failures: list[Any] = []
        is_over = threading.Event()
        sent = 0

        def note(error: Any, _message: Any) -> None:
            if error is not None:
                failures.append(error)

        def load() -> None:
            nonlocal sent
            while not is_over.is_set():
                producer.produce("renewed", bytes(10_000), on_delivery=note)
                producer.poll(0.002)
                sent += 1

        thread = threading.Thread(target=load)
        thread.start()
        try:
            before = served(secured)
            for name in ("renewed", "server"):  # to a new one, and to one of the old name
                put(secured, secured.authority.issue(f"new-{name}", "/CN=localhost"))
                changed = partial(differs, secured, before)
                assert wait_until(changed, UNTIL_SECONDS)
                before = served(secured)
            Path(secured.server[0]).write_text("broken")
            log = secured.node.log_file
            said = "a changed file is not used"
            assert wait_until(lambda: said in log.read_text(), UNTIL_SECONDS)
            assert served(secured) == before
            assert is_let_in(settings)
        finally:
            is_over.set()
            thread.join()
        assert producer.flush(UNTIL_SECONDS) == 0
        assert not failures
        assert sent > 100


def differs(secured: Secured, before: str) -> bool:
    return served(secured) != before


def put(secured: Secured, files: tuple[str, str]) -> None:
    """Put a certificate and its key in the place of the server's."""
    for new, place in zip(files, secured.server, strict=True):
        shutil.copy(new, place)


def served(secured: Secured) -> str:
    """The certificate that a new connection gets."""
    return ssl.get_server_certificate(("127.0.0.1", secured.ports["TLS"]))


def cli(*arguments: str, stdin: str = "", **environment: str) -> tuple[int, str, str]:
    penstock = Path(sys.executable).with_name("penstock")
    done = subprocess.run(
        [str(penstock), *arguments], input=stdin, capture_output=True, text=True, check=False,
        env={"PATH": "/usr/bin:/bin", **environment}, timeout=UNTIL_SECONDS,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def properties(path: Path, settings: Settings) -> str:
    path.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
    return str(path)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_command_line_takes_the_same_settings(
    secured: Secured, topic: str, tmp_path: Path, mechanism: str
) -> None:
    settings = secured.librdkafka("SASLTLS", mechanism)
    at = ("--bootstrap", settings.pop("bootstrap.servers"))
    del settings["log_level"]
    config = ("--client-config", properties(tmp_path / "client", settings))
    lines = "".join(f"line {number}\n" for number in range(3000))
    assert cli(*config, "produce", topic, *at, stdin=lines)[0] == 0
    code, printed, said = cli(*config, "consume", topic, *at)
    assert (code, said) == (0, ""), said
    assert "line 2999" in printed
    wrong = properties(tmp_path / "wrong", settings | {"sasl.password": "x"})
    code, printed, said = cli("topic", "list", *at, PENSTOCK_CLIENT_CONFIG=wrong)
    assert code == 1
    assert "does not let this client in" in said


def test_users_are_added_listed_and_deleted(secured: Secured, tmp_path: Path) -> None:
    settings = secured.librdkafka("SASLTLS", "SCRAM-SHA-512")
    at = ("--bootstrap", settings["bootstrap.servers"])
    known = {name: value for name, value in settings.items() if "." in name}
    del known["bootstrap.servers"]
    config = ("--client-config", properties(tmp_path / "client", known))
    assert cli(*config, "user", "add", "dora", *at, stdin="secret\n")[0] == 0
    dora = settings | {"sasl.username": "dora", "sasl.password": "secret"}
    assert is_let_in(dora)
    assert "dora" in cli(*config, "user", "list", *at)[1]
    assert cli(*config, "user", "delete", "dora", *at)[0] == 0
    assert not is_let_in(dora)
    assert cli(*config, "user", "delete", "dora", *at)[0] == 1
    assert "dora" not in cli(*config, "user", "list", *at)[1]


def jaas(mechanism: str, password: str) -> str:
    name = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return (
        f'org.apache.kafka.common.security.{name} required username="alice" password="{password}";'
    )


def java(secured: Secured, path: Path, mechanism: str, password: str = PASSWORD) -> str:
    return properties(
        path,
        {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": secured.authority.file,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas(mechanism, password),
        },
    )


@pytest.mark.compat
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_java(secured: Secured, topic: str, tmp_path: Path, mechanism: str) -> None:
    at = ("--bootstrap-server", f"localhost:{secured.ports['SASLTLS']}")
    config = java(secured, tmp_path / "java", mechanism)
    with_topic = (*at, "--topic", topic)
    tool("kafka-console-producer", *with_topic, "--producer.config", config, stdin="a\nb\n")
    printed = tool(
        "kafka-console-consumer", *with_topic, "--consumer.config", config,
        "--from-beginning", "--max-messages", "2", "--timeout-ms", "40000",
    )  # fmt: skip
    assert {"a", "b"} <= set(printed.split())
    wrong = java(secured, tmp_path / "wrong", mechanism, "wrong")
    said = tool("kafka-topics", *at, "--list", "--command-config", wrong, check=False)
    assert "Authentication failed: user, password or mechanism are not valid." in said


def mechanisms_of(secured: Secured, user: str) -> set[tuple[str, int]]:
    """A user's mechanisms with their iterations, by librdkafka."""
    admin = AdminClient(secured.librdkafka("SASLTLS", "SCRAM-SHA-256"))
    found = admin.describe_user_scram_credentials([user])
    assert isinstance(found, dict)
    infos = found[user].result(UNTIL_SECONDS).scram_credential_infos
    return {(one.mechanism.name, one.iterations) for one in infos}


@pytest.mark.compat
def test_kafkas_tool_alters_and_describes_users(secured: Secured, tmp_path: Path) -> None:
    config = java(secured, tmp_path / "java", "SCRAM-SHA-256")
    at = ("--bootstrap-server", f"localhost:{secured.ports['SASLTLS']}", "--command-config", config)
    user = ("--entity-type", "users", "--entity-name", "erik")
    both = "SCRAM-SHA-256=[iterations=4096,password=e],SCRAM-SHA-512=[password=e]"
    tool("kafka-configs", *at, "--alter", *user, "--add-config", both)
    assert mechanisms_of(secured, "erik") == {("SCRAM_SHA_256", 4096), ("SCRAM_SHA_512", 4096)}
    told = tool("kafka-configs", *at, "--describe", *user)
    assert "SCRAM-SHA-256=iterations=4096, SCRAM-SHA-512=iterations=4096" in told
    erik = {"sasl.username": "erik", "sasl.password": "e"}
    for mechanism in MECHANISMS[1:]:
        assert is_let_in(secured.librdkafka("SASLTLS", mechanism) | erik)
    tool("kafka-configs", *at, "--alter", *user, "--delete-config", "SCRAM-SHA-256")
    assert not is_let_in(secured.librdkafka("SASLTLS", "SCRAM-SHA-256") | erik)
    assert is_let_in(secured.librdkafka("SASLTLS", "SCRAM-SHA-512") | erik)
