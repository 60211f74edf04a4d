"""A secret of every kind is used and misused at every front, and shows in no place but its file."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from rocketmq.grpc_protocol import service_pb2 as service

import grpc
from harness.node import NodeProcess
from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.access.delegation import password_of
from penstock.access.scram import ScramClient, keys_of, salted_password
from penstock.audit.row import TOPIC as AUDIT_TOPIC
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.remoting.wire.codes import RequestCode
from tests.access.provider import message
from tests.grpc.receiving import named
from tests.grpc.signing import SignedCaller
from tests.integration.closed_fronts import (
    ADMIN,
    BEARER_USER,
    KEY_USER,
    PLAIN_USER,
    SCRAM,
    ClosedFronts,
    Heard,
    with_symmetric_key,
)
from tests.kafka.gate_asks import ms
from tests.remoting.served import sent
from tests.remoting.signing import SignedRemote

pytestmark = pytest.mark.process
TOPIC = "orders"
BROKER, TOPICS = 4, 2
"""Kinds of what has settings."""
SALT, ITERATIONS = b"a salt of twenty-four by", 4096
SECRET_SETTINGS = ("ssl.key.password", "ssl.keystore.password", "sasl.jaas.config", "no.such.key")
Evidence = dict[str, bytes]
PLACES = (
    "answers of Kafka's port",
    "answers of RocketMQ's ports",
    "pages",
    "commands",
    "the broker's log",
    "the controller's log",
    "processes",
    "the audit",
    "dumps",
)


@pytest.fixture(scope="module")
def fronts(tmp_path_factory: pytest.TempPathFactory) -> ClosedFronts:
    return ClosedFronts(tmp_path_factory.mktemp("closed"))


@pytest.fixture(scope="module")
def evidence(fronts: ClosedFronts) -> Evidence:
    """Whatever was said anywhere while secrets of all kinds were right, wrong and misplaced."""
    found: Evidence = {}
    with fronts.cluster as cluster:
        found["answers of Kafka's port"] = ask_kafka(fronts)
        found["answers of RocketMQ's ports"] = ask_remoting(fronts) + ask_grpc(fronts)
        found["commands"] = run_commands(fronts)
        spoil_files(fronts)
        found["pages"] = read_pages(fronts)
        found["the audit"] = read_audit(fronts)
        found["commands"] += run(fronts, "audit", "slice") + run(fronts, "audit", "who", TOPIC)
        found["processes"] = b"".join(map(told_of_processes, cluster.processes.values()))
        found["commands"] += run(fronts, "config", "describe", "broker", "1")
        cluster.stop()
        found["the broker's log"] = cluster.nodes[1].log_file.read_bytes()
        found["the controller's log"] = cluster.controllers[101].log_file.read_bytes()
        found["dumps"] = dump(fronts)
    return found


@pytest.mark.parametrize("place", PLACES)
def test_no_secret_shows(fronts: ClosedFronts, evidence: Evidence, place: str) -> None:
    said = evidence[place]
    assert said, "something was said"
    assert fronts.secrets.within(said) == set()


def test_the_search_finds_every_secret_where_it_belongs(
    fronts: ClosedFronts, evidence: Evidence
) -> None:
    """The search would find what it looks for, and all was told that could have had a secret."""
    files = [one for one in fronts.directory.iterdir() if one.is_file()]
    files += [
        *fronts.directory.glob("authority/*.key*"),
        *fronts.cluster.directory.glob("*.secret"),
    ]
    kept = b"".join(one.read_bytes() for one in files)
    sent_only = {"wrong password", "setting", "token", "salted password", "header"}
    assert fronts.secrets.kinds - fronts.secrets.within(kept) <= sent_only
    log = evidence["the broker's log"]
    assert b" DEBUG " in log
    assert b"not authenticated by PLAIN" in log
    assert PLAIN_USER.encode() in evidence["the audit"]
    assert b"Traceback" in evidence["commands"]


# --- Kafka's port ------------------------------------------------------------------------------


def ask_kafka(fronts: ClosedFronts) -> bytes:
    """Prove who one is in every way, rightly and wrongly, and ask for what has secrets."""
    heard = b""
    for prove in (by_scram, by_plain, by_bearer):
        for is_right in (True, False):
            with fronts.client() as client:
                code = prove(fronts, client, is_right=is_right)
                assert (code == Code.NONE) is is_right, (prove, is_right)
                if is_right:
                    ask_for_secrets(client)
                heard += client.heard
    return heard + use_token(fronts)


def by_scram(fronts: ClosedFronts, client: Heard, *, is_right: bool) -> Code:
    password = fronts.passwords["first user"]
    return log_in(fronts, client, ADMIN, password if is_right else wrong(fronts, "of-scram"))


def log_in(fronts: ClosedFronts, client: Heard, user: str, password: str, **more: Any) -> Code:
    salted_of = ScramClient(SCRAM, user, password, "nonce", **more)
    challenge = client.prove(SCRAM, salted_of.first())
    final = salted_of.final(challenge.auth_bytes)
    return client.ask(ApiKey.SASL_AUTHENTICATE, 2, {"auth_bytes": final}).error_code


def by_plain(fronts: ClosedFronts, client: Heard, *, is_right: bool) -> Code:
    password = fronts.passwords["user of PLAIN"] if is_right else wrong(fronts, "of-plain")
    broken = "" if is_right else "\0one part too many"
    return client.prove("PLAIN", f"\0{PLAIN_USER}\0{password}{broken}".encode()).error_code


def by_bearer(fronts: ClosedFronts, client: Heard, *, is_right: bool) -> Code:
    changed: dict[str, Any] = {} if is_right else {"exp": 1}
    token = fronts.provider.token(sub=BEARER_USER, **changed)
    fronts.secrets.add("token", token.rpartition(".")[2])
    answer = client.prove("OAUTHBEARER", message(token), *([] if is_right else [b"\x01"]))
    return answer.error_code


def wrong(fronts: ClosedFronts, name: str) -> str:
    """Return a password that nobody has, which might be a right one of something else."""
    password = f"a-wrong-password-{name}"
    fronts.secrets.add("wrong password", password)
    return password


def ask_for_secrets(client: Heard) -> None:
    """Ask for settings and credentials, and for changes of them; whoever it is."""
    for name in ("1", ""):
        resource = {"resource_type": BROKER, "resource_name": name, "configuration_keys": None}
        asked = {"resources": (resource,), "include_synonyms": True, "include_documentation": True}
        client.ask(ApiKey.DESCRIBE_CONFIGS, 4, asked)
    client.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": None})


def use_token(fronts: ClosedFronts) -> bytes:
    """Make users, tokens and settings with secrets as root; others see them listed."""
    password = "a-password-that-kafkas-tool-has-sent"
    salted = salted_password(SCRAM, password, SALT, ITERATIONS)
    keys = keys_of(SCRAM, salted, SALT, ITERATIONS)
    for secret in (salted, keys.stored_key, keys.server_key):
        fronts.secrets.add("salted password", secret)
    with fronts.client() as root:
        assert by_scram(fronts, root, is_right=True) == Code.NONE
        upserts = [upserted("tool", ITERATIONS, salted), upserted("tool2", 1, salted)]
        root.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": (), "upsertions": upserts})
        ask_for_secrets(root)
        set_secrets(fronts, root)
        made = root.ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, new_token())
        assert made.error_code == Code.NONE
        heard, root.heard = root.heard.replace(made.hmac, b""), b""
        for proof in (made.hmac, password_of(made.hmac)):
            fronts.secrets.add("token", proof)
    for password, code in (
        (password_of(made.hmac), Code.NONE),
        (wrong(fronts, "of-a-token"), Code.SASL_AUTHENTICATION_FAILED),
    ):
        with fronts.client() as client:
            assert log_in(fronts, client, made.token_id, password, is_token=True) == code
            heard += client.heard
    with fronts.client() as other:
        assert by_plain(fronts, other, is_right=True) == Code.NONE
        other.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, {"owners": None})
        heard += other.heard
    return heard


def upserted(user: str, iterations: int, salted: bytes) -> dict[str, Any]:
    return {
        "name": user, "mechanism": 2, "iterations": iterations, "salt": SALT,
        "salted_password": salted,
    }  # fmt: skip


def new_token() -> dict[str, Any]:
    nobody = {"owner_principal_type": None, "owner_principal_name": None}
    return nobody | {"renewers": (), "max_lifetime": ms(-1)}


def set_secrets(fronts: ClosedFronts, root: Heard) -> None:
    """Give settings values that are passwords, as if it were Kafka's broker."""
    for at, name in enumerate(SECRET_SETTINGS):
        value = f"a-password-in-a-setting-{at}"
        fronts.secrets.add("setting", value)
        for key in (name, f"listener.name.secure.{name}"):
            for kind, resource in ((BROKER, "1"), (TOPICS, TOPIC)):
                change = {"name": key, "config_operation": 0, "value": value}
                resources = ({
                    "resource_type": kind, "resource_name": resource, "configs": (change,),
                },)  # fmt: skip
                asked = {"resources": resources, "validate_only": False}
                root.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, asked)


# --- RocketMQ's ports --------------------------------------------------------------------------


def ask_remoting(fronts: ClosedFronts) -> bytes:
    address = f"127.0.0.1:{fronts.cluster.remoting_ports[1]}"
    heard = b""
    for secret in (fronts.passwords["access key"], wrong(fronts, "of-remoting")):
        for code, fields in (
            (RequestCode.GET_BROKER_CONFIG, {}),
            (RequestCode.GET_BROKER_RUNTIME_INFO, {}),
            (RequestCode.SEND_MESSAGE_V2, sent("nowhere")),
        ):
            with closing(SignedRemote(address, KEY_USER, secret, tls=fronts.context)) as client:
                answer = client.ask(code, fields)
                heard += bytes(answer.body) + repr((answer.fields, answer.remark)).encode()
    return heard


def ask_grpc(fronts: ClosedFronts) -> bytes:
    address = f"localhost:{fronts.cluster.grpc_ports[1]}"
    trusted = grpc.ssl_channel_credentials(Path(fronts.authority_file).read_bytes())
    heard = b""
    for secret in (fronts.passwords["access key"], wrong(fronts, "of-grpc")):
        with closing(SignedCaller(address, KEY_USER, secret, trusted)) as caller:
            answer = caller.call("QueryRoute", service.QueryRouteRequest(topic=named("nowhere")))
            heard += answer.SerializeToString()
    return heard


# --- pages, processes, the audit ---------------------------------------------------------------


def read_pages(fronts: ClosedFronts) -> bytes:
    """Read every page, with what a proxy might send along."""
    header = "a-password-in-a-header"
    fronts.secrets.add("header", header)
    said = b""
    for process in fronts.cluster.processes.values():
        for path in ("metrics", "cluster", "tier", "health", "ready", f"no?password={header}"):
            for scheme in ("Basic", "Bearer"):
                said += page(process, path, f"{scheme} {header}")
    return said


def page(process: NodeProcess, path: str, credentials: str) -> bytes:
    asked = urllib.request.Request(
        f"http://127.0.0.1:{process.metrics_port}/{path}", headers={"Authorization": credentials}
    )
    try:
        with urllib.request.urlopen(asked, timeout=UNTIL_SECONDS) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        return error.read() + str(error.headers).encode()


def told_of_processes(process: NodeProcess) -> bytes:
    """Return the command lines and environments of a process and all that it has started."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    left, said = [process.pid], b""
    while left:
        pid = left.pop()
        left += children.get(pid, [])
        with contextlib.suppress(OSError):
            said += Path(f"/proc/{pid}/cmdline").read_bytes()
            said += Path(f"/proc/{pid}/environ").read_bytes()
    return said


def read_audit(fronts: ClosedFronts) -> bytes:
    """Return the rows of the audit, once there is one of the user of PLAIN."""
    settings: dict[str, Any] = {
        "bootstrap.servers": f"localhost:{fronts.port}", "security.protocol": "SASL_SSL",
        "ssl.ca.location": fronts.authority_file, "sasl.mechanism": SCRAM,
        "sasl.username": ADMIN, "sasl.password": fronts.passwords["first user"], "group.id": "g",
    }  # fmt: skip
    consumer = Consumer(settings)
    partitions = consumer.list_topics(AUDIT_TOPIC, UNTIL_SECONDS).topics[AUDIT_TOPIC].partitions
    consumer.assign([TopicPartition(AUDIT_TOPIC, one, 0) for one in partitions])
    said = b""

    def is_told() -> bool:
        nonlocal said
        for one in consumer.consume(500, 0.2):
            said += (one.key() or b"") + (one.value() or b"")
        return PLAIN_USER.encode() in said

    try:
        assert wait_until(is_told, UNTIL_SECONDS)
    finally:
        consumer.close()
    return said


# --- commands ----------------------------------------------------------------------------------


def run(fronts: ClosedFronts, *words: str, config: Path | None = None) -> bytes:
    """Run a command as root, with tracebacks; return what it said."""
    command = [sys.executable, "-m", "penstock.cli.main", "--debug", *words]
    ran = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=UNTIL_SECONDS,
        check=False,
        env={
            **os.environ,
            "PENSTOCK_BOOTSTRAP": f"localhost:{fronts.port}",
            "PENSTOCK_CLIENT_CONFIG": str(config or fronts.admin_config),
        },
    )
    return ran.stdout


def run_commands(fronts: ClosedFronts) -> bytes:
    """Run every command that takes a secret, rightly and wrongly."""
    fronts.secrets.add("added user", added := "a-password-by-a-command")
    file = fronts.private("added.password", added + "\n")
    token_file = fronts.directory / "token.password"
    settings = str(fronts.cluster.nodes[1].config)
    wrong_config = fronts.properties(ADMIN, wrong(fronts, "of-a-command"))
    broken = fronts.private("broken.properties", f"sasl.password {wrong(fronts, 'misplaced')}\n")
    unknown = fronts.private("unknown.properties", f"sasl.pass = {wrong(fronts, 'of-a-name')}\n")
    misplaced = fronts.private(
        "node.toml", f'[security]\nsasl_password = "{wrong(fronts, "of-a-setting")}"\n'
    )
    said = [
        run(fronts, "topic", "create", TOPIC),
        run(fronts, "user", "add", "bob", "--password-file", str(file)),
        run(fronts, "user", "add", "", "--password-file", str(file)),
        run(fronts, "user", "list"),
        run(fronts, "token", "create", "--password-file", str(token_file)),
        run(fronts, "token", "create", "--password-file", str(token_file)),
        run(fronts, "token", "list", "-o", "json"),
        run(fronts, "acl", "list"),
        run(fronts, "node", "--config", str(misplaced)),
        run(fronts, "doctor", "--config", settings),
        run(fronts, "cluster", "status", "--config", settings),
        run(fronts, "tier", "status", "--config", settings),
        run(fronts, "tier", "objects", "--config", settings),
        *(run(fronts, "user", "list", config=one) for one in (wrong_config, broken, unknown)),
    ]
    fronts.secrets.add("token", token_file.read_text().strip())
    assert b"bob" in said[3]
    return b"\n".join(said)


SPOILED: dict[str, Callable[[ClosedFronts, str], bytes]] = {
    "plain-users": lambda _, secret: f"{PLAIN_USER}{secret}\n".encode(),
    "access-keys": lambda _, secret: f"{KEY_USER}:{secret}\n{secret}\n".encode(),
    "token-secret": lambda _, secret: f"{secret}\n{secret}\n{secret}\n".encode(),
    "keys.json": lambda fronts, secret: with_symmetric_key(fronts.provider.document(), secret),
    "authority/server.key": lambda _, secret: f"-----BEGIN {secret}-----\n".encode(),
}

REFUSED = [name for name in SPOILED if name != "keys.json"]
"""A set of keys may have some that are of no use here."""


def spoil_files(fronts: ClosedFronts) -> None:
    """Write something wrong, with a secret in it, into every file; the broker says so."""
    log = fronts.cluster.nodes[1].log_file
    for at, (name, spoil) in enumerate(SPOILED.items()):
        secret = f"a-secret-in-a-spoiled-file-{at}"
        fronts.secrets.add("spoiled file", secret)
        path = fronts.directory / name
        kept = path.with_name(path.name + ".kept")
        shutil.copy(path, kept)
        path.write_bytes(spoil(fronts, secret))

    def is_said() -> bool:
        said = [line for line in log.read_text().splitlines() if "a changed file is" in line]
        return all(any(str(fronts.directory / one) in line for line in said) for one in REFUSED)

    assert wait_until(is_said, UNTIL_SECONDS), log.read_text()[-3000:]


def dump(fronts: ClosedFronts) -> bytes:
    """Dump and verify the logs of a broker that is down, and read its settings page."""
    data = str(fronts.cluster.nodes[1].data)
    said = run(fronts, "log", "dump", data) + run(fronts, "log", "dump", data, "-o", "json")
    assert re.search(rb"batch", said)
    return said + run(fronts, "log", "verify", data)
