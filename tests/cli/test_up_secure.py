"""`penstock up --secure`: a closed cluster in one command, used by stock clients."""

import asyncio
import dataclasses
import gc
import json
import os
import re
import shlex
import shutil
import signal
import socket
import ssl
import stat
import urllib.request
import warnings
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic

from harness.ports import UP_PORTS, free_port
from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.cli.launch.probe import LoginRefused, brokers_seen
from penstock.cli.launch.secured import Secured
from penstock.remoting.wire.codes import RequestCode, ResponseCode
from tests.cli.launched import launched, penstock
from tests.compat.java_tools import tool
from tests.remoting.signing import SignedRemote

with warnings.catch_warnings():  # it reads its own files in a deprecated way when imported
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
SECRET_FILES = ("admin.password", "first-users", "admin.properties")


def told(up):
    """Return what the line `ready` says, by name."""
    assert up.ready_line.startswith("ready ")
    return dict(part.split("=", 1) for part in shlex.split(up.ready_line)[1:])


def settings_of(up, **more):
    """Return librdkafka's settings for the first user, from the line `ready` alone."""
    ready = told(up)
    return {
        "bootstrap.servers": ready["bootstrap"],
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": ready["ca"],
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": ready["user"],
        "sasl.password": Path(ready["password-file"]).read_text().strip(),
        "log_level": 0,
        **more,
    }


def create(settings, topic, **more):
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(topic, **more)])[topic].result(UNTIL_SECONDS)


def send(settings, topic, values):
    failed = []
    producer = Producer(settings)
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(UNTIL_SECONDS) == 0
    assert failed == [None] * len(values)


def read(settings, topic, count, *, group="readers"):
    """Return so many values of a topic that the group has not read, in no order."""
    group = {"group.id": f"{topic}-{group}", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | group)
    consumer.subscribe([topic])
    found: set[bytes | None] = set()
    try:
        while len(found) < count:
            message = consumer.poll(UNTIL_SECONDS)
            assert message is not None
            assert message.error() is None, message.error()
            found.add(message.value())
    finally:
        consumer.close()
    return found


def test_rocketmq_s_clients_sign_by_the_access_key_that_is_told(tmp_path):
    port, grpc_port = free_port(), free_port()
    ports = f"remoting.port={port}", f"grpc.port={grpc_port}"
    where = "--secure", "--rocketmq", "--set", ports[0], "--set", ports[1]
    with launched(tmp_path / "data", *where) as up:
        ready = told(up)
        assert ready["rocketmq"] == f"127.0.0.1:{port}"
        assert ready["grpc"] == f"127.0.0.1:{grpc_port}"
        user, secret = Path(ready["access-keys-file"]).read_text().strip().split(":")
        context = ssl.create_default_context(cafile=ready["ca"])
        cluster = RequestCode.GET_BROKER_CLUSTER_INFO
        with closing(SignedRemote(ready["rocketmq"], user, secret, tls=context)) as remote:
            assert remote.ask(cluster, {}).code == ResponseCode.SUCCESS
        with closing(SignedRemote(ready["rocketmq"], user, "x" * 20, tls=context)) as remote:
            assert remote.ask(cluster, {}).code == ResponseCode.NO_PERMISSION
        assert secret not in up.errors()


def why_not_in(settings):
    """Return the names of what librdkafka says while it gets no answer; empty with one."""
    return {error.name() for error in errors_of(settings)}


def errors_of(settings):
    """Return what librdkafka says while it gets no answer; nothing with one."""
    said: list = []
    asks = Producer(settings | {"error_cb": said.append})
    for _ in range(60):
        asks.poll(0.05)
        if said:
            asks.poll(1)  # for what else there is to say
            return said
        try:
            asks.list_topics(timeout=0.5)
        except KafkaException:
            continue
        return []
    raise AssertionError("neither an answer nor an error")


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    with launched(tmp_path_factory.mktemp("secure") / "data", "--secure") as up:
        create(settings_of(up), "there", num_partitions=1)
        yield up


def test_the_ready_line_is_all_that_a_client_needs(up):
    files = up.directory / "security"
    assert up.ready_line == (
        f"ready bootstrap=127.0.0.1:{up.port} ca={files}/authority.pem user=admin"
        f" password-file={files}/admin.password\n"
    )
    values = [b"%d" % number for number in range(500)]
    create(settings_of(up), "first", num_partitions=1)
    send(settings_of(up, **{"enable.idempotence": True}), "first", values)
    assert read(settings_of(up), "first", len(values)) == set(values)


def test_kafka_python_comes_in(up):
    create(settings_of(up), "python", num_partitions=1)
    settings = {
        "bootstrap_servers": up.bootstrap,
        "security_protocol": "SASL_SSL",
        "ssl_context": ssl.create_default_context(cafile=told(up)["ca"]),
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "admin",
        "sasl_plain_password": settings_of(up)["sasl.password"],
    }
    producer = KafkaProducer(**settings)
    producer.send("python", b"value").get(UNTIL_SECONDS)
    producer.close()
    consumer = KafkaConsumer("python", auto_offset_reset="earliest", **settings)
    assert next(consumer).value == b"value"
    consumer.close()


@pytest.mark.compat
def test_kafkas_tools_come_in(up, tmp_path):
    config = tmp_path / "java.properties"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    password = settings_of(up)["sasl.password"]
    config.write_text(
        f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={told(up)['ca']}\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={module} required username="admin" password="{password}";\n'
    )
    at = ("--bootstrap-server", up.bootstrap, "--command-config", str(config))
    assert "there" in tool("kafka-topics", *at, "--list").split()
    rule = ("--add", "--allow-principal", "User:x", "--operation", "Read", "--topic", "there")
    assert "User:x" in tool("kafka-acls", *at, *rule)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sasl.password": "wrong"}, "_AUTHENTICATION"),
        ({"sasl.username": "nobody"}, "_AUTHENTICATION"),
        ({"sasl.mechanism": "SCRAM-SHA-256"}, "_AUTHENTICATION"),
        ({"sasl.mechanism": "PLAIN"}, "_AUTHENTICATION"),
        ({"security.protocol": "SSL"}, "_ALL_BROKERS_DOWN"),
        ({"security.protocol": "PLAINTEXT"}, "_ALL_BROKERS_DOWN"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "_ALL_BROKERS_DOWN"),
    ],
)
def test_nobody_else_comes_in(up, changed, said):
    assert why_not_in(settings_of(up)) == set()
    assert said in why_not_in(settings_of(up, **changed))


def test_a_client_that_trusts_another_authority_does_not_speak_to_the_node(up):
    settings = settings_of(up)
    del settings["ssl.ca.location"]  # those of the system
    # Its code is _SSL or _TRANSPORT: librdkafka goes by what the socket says beside that.
    assert any("certificate verify failed" in error.str() for error in errors_of(settings))


def test_another_user_may_do_nothing_until_a_rule_says_so(up, tmp_path):
    config = ("--client-config", str(up.directory / "security" / "admin.properties"))
    (tmp_path / "password").write_text("of-bob\n")
    (tmp_path / "password").chmod(0o600)
    at = ("--bootstrap", up.bootstrap)

    def done(*arguments):
        ran = penstock(*config, *arguments, *at)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.decode()

    done("user", "add", "bob", "--password-file", str(tmp_path / "password"))
    bob = settings_of(up, **{"sasl.username": "bob", "sasl.password": "of-bob"})
    assert AdminClient(bob).list_topics(timeout=UNTIL_SECONDS).topics == {}
    admin = AdminClient(bob)
    (denied,) = admin.create_topics([NewTopic("bobs", 1)]).values()
    with pytest.raises(KafkaException) as raised:
        denied.result(UNTIL_SECONDS)
    assert raised.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    failed = []
    producer = Producer(bob)
    producer.produce("there", b"bobs", on_delivery=lambda error, _: failed.append(error))
    producer.flush(UNTIL_SECONDS)
    assert [error and error.name() for error in failed] == ["TOPIC_AUTHORIZATION_FAILED"]
    done("acl", "add", "--allow", "User:bob", "--operation", "write", "topic:there")
    send(bob, "there", [b"bobs"])


def test_every_file_with_a_secret_is_for_its_owner_alone(up):
    files = up.directory / "security"
    assert stat.S_IMODE(files.stat().st_mode) == 0o700
    names = {path.name for path in files.iterdir()}
    assert names == {*SECRET_FILES, "authority.pem", "authority.key", "node-1.pem"}
    for path in files.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_the_password_stands_in_its_files_and_nowhere_else(tmp_path):
    metrics_port = free_port()
    options = ("--secure", "--metrics-port", str(metrics_port), "--set", "node.log_level=debug")
    with launched(tmp_path / "data", *options) as up:
        settings = settings_of(up)
        create(settings, "t", num_partitions=1)
        assert why_not_in(settings | {"sasl.password": "wrong"})
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics") as page:
            assert secrets_in(settings, page.read()) == []
        for pid in (up.process.pid, up.pid()):
            for name in ("cmdline", "environ"):
                assert secrets_in(settings, Path(f"/proc/{pid}/{name}").read_bytes()) == []
        admin = AdminClient(settings)
        described = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")])
        (configs,) = [one.result(UNTIL_SECONDS) for one in described.values()]
        told_there = json.dumps([str(entry.value) for entry in configs.values()]).encode()
        assert b"SASL_SSL" in told_there
        assert secrets_in(settings, told_there) == []
        assert up.stop() == (0, "")
        holders = {
            path.name
            for path in (tmp_path).rglob("*")
            if path.is_file() and secrets_in(settings, path.read_bytes())
        }
        assert holders == set(SECRET_FILES)


def secrets_in(settings, data):
    """Return the secrets of the first user that stand in some bytes."""
    return [one for one in (settings["sasl.password"],) if one.encode() in data]


def test_a_restart_keeps_the_authority_the_user_and_the_data(tmp_path):
    with launched(tmp_path / "data", "--secure") as up:
        settings = settings_of(up)
        create(settings, "kept", num_partitions=1)
        send(settings, "kept", [b"one"])
        before = contents(up)
        assert up.stop() == (0, "")
        assert up.told() == []
    with launched(tmp_path / "data", "--secure", port=up.port) as again:
        assert again.ready_line == up.ready_line
        assert contents(again) == before
        send(settings, "kept", [b"two"])
        assert read(settings, "kept", 2) == {b"one", b"two"}


def contents(up):
    return {path.name: path.read_bytes() for path in (up.directory / "security").iterdir()}


def test_three_nodes_are_closed_as_one_is(tmp_path):
    with launched(tmp_path / "data", "--secure", "--nodes", "3") as up:
        bootstrap = told(up)["bootstrap"].split(",")
        assert bootstrap == [f"127.0.0.1:{up.port + number}" for number in range(3)]
        settings = settings_of(up)
        create(settings, "wide", num_partitions=6, replication_factor=3)
        values = [b"%d" % number for number in range(600)]
        send(settings | {"acks": "all"}, "wide", values)
        for one in bootstrap:
            assert why_not_in(settings | {"bootstrap.servers": one}) == set()
            wrong = {"bootstrap.servers": one, "sasl.password": "wrong"}
            assert "_AUTHENTICATION" in why_not_in(settings | wrong)
        assert read(settings, "wide", len(values)) == set(values)
        leaders = AdminClient(settings).list_topics("wide", timeout=UNTIL_SECONDS)
        led = {one.leader for one in leaders.topics["wide"].partitions.values()}
        assert led == {1, 2, 3}  # so each node's certificate and users were needed
        before = contents(up)
        assert up.stop() == (0, "")
    with launched(tmp_path / "data", "--secure", "--nodes", "3", port=up.port) as again:
        assert contents(again) == before
        assert read(settings, "wide", len(values), group="later") == set(values)


def test_an_open_cluster_is_closed_by_a_start_with_secure(tmp_path):
    with launched(tmp_path / "data") as up:
        create({"bootstrap.servers": up.bootstrap}, "old", num_partitions=1)
        send({"bootstrap.servers": up.bootstrap}, "old", [b"old"])
    with launched(tmp_path / "data", "--secure", port=up.port) as up:
        assert read(settings_of(up), "old", 1) == {b"old"}
        assert why_not_in({"bootstrap.servers": up.bootstrap, "log_level": 0})


def refused(tmp_path, *options, environment=None):
    """Return the one line that a start ends with."""
    where = ("--data", tmp_path / "data", "--port", free_port(UP_PORTS), "--metrics-port", 0)
    done = penstock("up", *where, *options, environment=environment)
    assert (done.returncode, done.stdout) == (2, b"")
    (line,) = done.stderr.decode().splitlines()
    return line


@pytest.fixture
def closed(tmp_path):
    """The files of a cluster that was closed, and is stopped."""
    with launched(tmp_path / "data", "--secure") as up:
        assert up.stop() == (0, "")
    return tmp_path / "data" / "security"


def test_what_was_closed_is_not_opened_by_leaving_the_option_out(tmp_path, closed):
    assert "was closed with --secure: give it again; to open it" in refused(tmp_path)
    shutil.rmtree(closed)
    with launched(tmp_path / "data") as up:
        assert up.ready_line == f"ready bootstrap=127.0.0.1:{up.port}\n"


def test_files_that_are_not_what_they_were_are_one_line(tmp_path, closed):
    for name in ("admin.password", "first-users", "node-1.pem"):
        (closed / name).chmod(0o604)
        line = refused(tmp_path, "--secure")
        assert re.search(f"{name} can be read .* everybody on this machine: chmod 600 ", line), line
        (closed / name).chmod(0o600)
    closed.chmod(0o770)
    assert f"others can write to {closed}: chmod 700" in refused(tmp_path, "--secure")
    closed.chmod(0o700)
    for name in ("authority.pem", "admin.password", "first-users"):
        (closed / name).rename(closed / "away")
        line = refused(tmp_path, "--secure")
        assert re.search(f"{name} is gone: put it back, or remove ", line), line
        (closed / "away").rename(closed / name)


def test_the_authoritys_key_is_needed_for_new_certificates_only(tmp_path, closed):
    (closed / "authority.key").rename(tmp_path / "kept-elsewhere")
    with launched(tmp_path / "data", "--secure") as up:
        assert why_not_in(settings_of(up)) == set()
    line = refused(tmp_path, "--secure", "--set", "node.advertised_host=log.example.net")
    assert "authority.key can not be read: No such file" in line


def test_settings_that_open_it_are_refused_and_nothing_is_decided(tmp_path):
    said = "--secure and access.authorizer contradict each other: leave one of them out"
    assert said in refused(tmp_path, "--secure", "--set", "access.authorizer=off")
    off = {"PENSTOCK__ACCESS__AUTHORIZER": "off"}
    assert said in refused(tmp_path, "--secure", environment=off)
    assert not (tmp_path / "data" / "security").exists()


def test_the_launcher_is_told_by_a_node_that_does_not_let_it_in(up):
    files = Secured(directory=up.directory / "security")
    there = ("127.0.0.1", up.port)
    assert asyncio.run(brokers_seen(*there, files.login())) == {1}
    wrong = dataclasses.replace(files.login(), password="wrong")
    with pytest.raises(LoginRefused):
        asyncio.run(brokers_seen(*there, wrong))
    with pytest.raises(LoginRefused):
        asyncio.run(brokers_seen(*there, dataclasses.replace(wrong, mechanism="SCRAM-SHA-256")))
    assert asyncio.run(brokers_seen(*there)) == set()
    assert "wrong" not in repr(wrong)


def test_the_launcher_leaves_no_connection_behind(up):
    files = Secured(directory=up.directory / "security")
    gc.collect()
    with warnings.catch_warnings(record=True) as told_by_collector:
        warnings.simplefilter("always")
        assert asyncio.run(brokers_seen("127.0.0.1", up.port, files.login())) == {1}
        gc.collect()
    assert [str(one.message) for one in told_by_collector] == []


def test_a_half_made_directory_of_an_earlier_start_is_made_anew(tmp_path):
    half = tmp_path / "data" / "security.new"
    half.mkdir(parents=True)
    (half / "authority.key").write_text("half")
    with launched(tmp_path / "data", "--secure") as up:
        assert why_not_in(settings_of(up)) == set()
    assert not half.exists()


def test_the_nodes_certificate_names_where_clients_look_for_it(up):
    context = ssl.create_default_context(cafile=told(up)["ca"])
    for name in ("127.0.0.1", "localhost", socket.gethostname()):
        with (
            socket.create_connection(("127.0.0.1", up.port)) as connection,
            context.wrap_socket(connection, server_hostname=name) as encrypted,
        ):
            assert encrypted.version() == "TLSv1.3"


def test_a_killed_node_is_started_again_as_closed_as_it_was(tmp_path):
    with launched(tmp_path / "data", "--secure") as up:
        killed = up.pid()
        os.kill(killed, signal.SIGKILL)
        assert wait_until(lambda: up.pid() != killed, UNTIL_SECONDS)
        assert wait_until(lambda: why_not_in(settings_of(up)) == set(), UNTIL_SECONDS)
        assert why_not_in({"bootstrap.servers": up.bootstrap, "log_level": 0})
