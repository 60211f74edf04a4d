"""SASL on a listener: what may be asked before it, what a failure looks like, and sessions."""

import contextlib
import logging
import struct
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.access.sasl import TOKEN_BYTES_MAX
from penstock.access.scram import ScramClient
from penstock.base.ports import Clock
from penstock.controller.commands.access.commands import AlterQuotas, QuotaChange
from penstock.kafka.sasl.session import AGAIN_SECONDS, HEADER_BYTES_MAX, SaslSession
from penstock.net.errors import CloseKind
from penstock.net.limits import NetLimits
from penstock.net.receive import SAVED_BYTES_MAX, UNPROVEN_PART
from penstock.net.tls import failed_logins
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.quotas.entities import entity_of
from tests.broker.cluster import batch
from tests.live_node import LiveNode, RawClient, running_node

HANDSHAKE, AUTHENTICATE = ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
ALL = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
RIGHT, WRONG = b"\0alice\0pa", b"\0alice\0pb"


def users_file(directory: Path) -> Path:
    path = directory / "users"
    path.write_text("# users\nalice:pa\nbob:p:b\n")
    path.chmod(0o600)
    return path


def secured(directory: Path, *more: str) -> tuple[str, ...]:
    path = users_file(directory)
    return (
        "security.listener_security_protocol_map=kafka:SASL_PLAINTEXT",
        f"security.sasl_enabled_mechanisms={ALL}",
        f"security.sasl_plain_users_file={path}",
        "security.sasl_plain_without_tls=true",
        f"security.scram_first_users_file={path}",
        "security.connection_failed_authentication_delay_ms=50",
        *more,
    )


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    directory = tmp_path_factory.mktemp("sasl")
    (directory / "data").mkdir()
    with running_node(directory / "data", *secured(directory)) as node:
        yield node


@pytest.fixture
def client(node: LiveNode) -> Iterator[RawClient]:
    with closing(node.connect()) as client:
        yield client


@pytest.fixture
def every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a line for each failure, however many other tests have made on the same node."""
    monkeypatch.setattr(failed_logins, "LINES_MAX", 10_000)
    monkeypatch.setattr(failed_logins, "LINES_OF_ADDRESS", 10_000)


def choose(client: RawClient, mechanism: str, version: int = 1) -> Any:
    return client.ask(HANDSHAKE, version, {"mechanism": mechanism})


def prove(client: RawClient, token: bytes = RIGHT, version: int = 2) -> Any:
    return client.ask(AUTHENTICATE, version, {"auth_bytes": token})


def is_served(client: RawClient) -> bool:
    return bool(client.ask(ApiKey.METADATA, 4, {"topics": []}).brokers)


def principals(node: LiveNode) -> list[str]:
    listener = node.node._listener
    assert listener is not None
    return node.call(lambda: [one.principal for one in listener.connections])


@pytest.mark.parametrize("version", range(3))
def test_plain_lets_a_user_in(node: LiveNode, client: RawClient, version: int) -> None:
    chosen = choose(client, "PLAIN")
    assert (chosen.error_code, list(chosen.mechanisms)) == (Code.NONE, ALL.split(","))
    answer = prove(client, version=version)
    assert (answer.error_code, answer.error_message, answer.auth_bytes) == (Code.NONE, None, b"")
    assert is_served(client)
    assert principals(node) == ["User:alice"]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_lets_a_first_user_in(client: RawClient, mechanism: str) -> None:
    choose(client, mechanism)
    scram = ScramClient(mechanism, "bob", "p:b", "nonce")
    challenge = prove(client, scram.first())
    assert challenge.error_code == Code.NONE
    answer = prove(client, scram.final(challenge.auth_bytes))
    assert scram.is_servers(answer.auth_bytes)
    assert is_served(client)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", ["bob", "nobody"])
def test_scram_fails_alike_for_a_wrong_password_and_an_unknown_user(
    client: RawClient, mechanism: str, user: str
) -> None:
    choose(client, mechanism)
    scram = ScramClient(mechanism, user, "other", "nonce")
    challenge = prove(client, scram.first())
    answer = prove(client, scram.final(challenge.auth_bytes))
    assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED
    assert user not in answer.error_message
    assert client.is_closed_by_node()


@pytest.mark.parametrize("user", ["bob", "nobody"])
def test_no_salt_tells_a_user_by_what_a_token_of_that_name_is_answered(
    node: LiveNode, user: str
) -> None:
    salts = set()
    for is_token in (False, True):
        with closing(node.connect()) as client:
            choose(client, "SCRAM-SHA-256")
            asked = ScramClient("SCRAM-SHA-256", user, "other", "nonce", is_token=is_token)
            challenge = prove(client, asked.first())
            assert challenge.error_code == Code.NONE
            salts.add(bytes(challenge.auth_bytes).split(b",s=")[1].split(b",")[0])
    assert len(salts) == 2, "of an unknown user both would be the same, of a known one not"


@pytest.mark.parametrize("token", [WRONG, b"\0nobody\0pa", b"", b"x" * 100, bytes(500_000)])
def test_a_wrong_token_is_answered_and_the_connection_closed(
    client: RawClient, token: bytes
) -> None:
    choose(client, "PLAIN")
    began = time.monotonic()
    answer = prove(client, token)
    assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Authentication failed: user, password or mechanism are not valid."
    )
    assert client.is_closed_by_node()
    assert time.monotonic() - began >= 0.049  # the 50 ms of the settings, less what timers round


@pytest.mark.usefixtures("every_line")
def test_a_token_that_is_refused_is_not_logged(
    client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    choose(client, "PLAIN")
    code = prove(client, b"\0alice\0a-password-of-something-else").error_code
    assert code == Code.SASL_AUTHENTICATION_FAILED
    assert client.is_closed_by_node()
    assert "not authenticated by PLAIN" in caplog.text
    assert "a-password-of-something-else" not in caplog.text


def test_nothing_else_is_answered_before(client: RawClient) -> None:
    assert client.ask(ApiKey.API_VERSIONS, 0, {}).api_keys
    client.send(ApiKey.METADATA, 4, {"topics": None})
    assert client.is_closed_by_node()


def test_requests_behind_a_failure_are_not_handled(node: LiveNode, client: RawClient) -> None:
    choose(client, "PLAIN")
    client.send(AUTHENTICATE, 2, {"auth_bytes": WRONG})
    client.send(AUTHENTICATE, 2, {"auth_bytes": RIGHT})
    client.send(ApiKey.METADATA, 4, {"topics": None})
    assert client.receive(AUTHENTICATE, 2).error_code == Code.SASL_AUTHENTICATION_FAILED
    assert client.is_closed_by_node()


def test_an_unknown_mechanism_is_answered_with_the_list(client: RawClient) -> None:
    answer = choose(client, "GSSAPI")
    assert answer.error_code == Code.UNSUPPORTED_SASL_MECHANISM
    assert list(answer.mechanisms) == ALL.split(",")
    assert client.is_closed_by_node()


def test_a_token_without_a_handshake_is_refused(client: RawClient) -> None:
    assert prove(client).error_code == Code.ILLEGAL_SASL_STATE
    assert client.is_closed_by_node()


def test_a_second_handshake_is_refused_where_sessions_have_no_end(client: RawClient) -> None:
    choose(client, "PLAIN")
    prove(client)
    assert choose(client, "PLAIN").error_code == Code.ILLEGAL_SASL_STATE
    assert prove(client).error_code == Code.ILLEGAL_SASL_STATE
    assert is_served(client)


def bare(client: RawClient, token: bytes) -> bytes:
    client.send_bytes(struct.pack(">i", len(token)) + token)
    return bytes(client.receive_frame())


def test_tokens_are_bare_after_a_handshake_of_version_0(client: RawClient) -> None:
    assert choose(client, "PLAIN", 0).error_code == Code.NONE
    client.send_bytes(struct.pack(">i", len(RIGHT)) + RIGHT)  # nine bytes: less than a request
    assert client._read(4) == bytes(4)
    assert is_served(client)


def test_bare_tokens_of_scram(client: RawClient) -> None:
    choose(client, "SCRAM-SHA-256", 0)
    scram = ScramClient("SCRAM-SHA-256", "alice", "pa", "nonce")
    assert scram.is_servers(bare(client, scram.final(bare(client, scram.first()))))
    assert is_served(client)


def test_a_wrong_bare_token_closes_the_connection(client: RawClient) -> None:
    choose(client, "PLAIN", 0)
    client.send_bytes(struct.pack(">i", len(WRONG)) + WRONG)
    assert client.is_closed_by_node()


def closed_for_size(node: LiveNode) -> int:
    listener = node.node._listener
    assert listener is not None
    return node.call(lambda: listener.stats.closed[CloseKind.FRAME_TOO_LARGE])


@pytest.mark.parametrize("size", [TOKEN_BYTES_MAX + HEADER_BYTES_MAX + 1, 2 << 20, 90 << 20])
def test_a_large_frame_is_refused_before_its_end(
    node: LiveNode, client: RawClient, size: int
) -> None:
    """Its end never comes: a node that waited for it would hold what has come."""
    before = closed_for_size(node)
    choose(client, "PLAIN")
    client.send_bytes(struct.pack(">ihh", size, AUTHENTICATE, 2))
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        client.send_bytes(bytes(2 * SAVED_BYTES_MAX))
    assert client.is_closed_by_node()
    assert closed_for_size(node) == before + 1


@pytest.mark.parametrize(
    ("size", "why"),
    [
        (TOKEN_BYTES_MAX, "no such user and password"),
        (TOKEN_BYTES_MAX + 1, "a token that is too large"),
    ],
)
@pytest.mark.usefixtures("every_line")
def test_a_token_has_as_many_bytes_as_is_said(
    client: RawClient, caplog: pytest.LogCaptureFixture, size: int, why: str
) -> None:
    choose(client, "PLAIN")
    with caplog.at_level(logging.INFO):
        assert prove(client, b"\0alice\0".ljust(size, b"p")).error_code
        assert client.is_closed_by_node()
    assert f"not authenticated by PLAIN: {why}" in caplog.text


def test_half_a_token_and_silence_are_ended(node: LiveNode, client: RawClient) -> None:
    choose(client, "PLAIN")
    client.send_bytes(struct.pack(">ihh", 100, AUTHENTICATE, 2))
    listener = node.node._listener
    assert listener is not None
    for _ in range(NetLimits().unproven_seconds_max + 1):
        node.call(listener.sweep)
    assert client.is_closed_by_node()


def test_users_are_altered_and_described(node: LiveNode, client: RawClient) -> None:
    choose(client, "PLAIN")
    prove(client)
    upsertion = {"name": "carol", "mechanism": 1, "iterations": 4096, "salt": b"s"}
    many = [
        upsertion | {"salted_password": bytes(32)},
        upsertion | {"name": "text", "salted_password": b"my-salted-password"},
        upsertion | {"name": "none", "salted_password": b""},
        upsertion | {"name": "few", "iterations": 4095, "salted_password": bytes(32)},
        upsertion | {"name": "many", "iterations": 16385, "salted_password": bytes(32)},
        upsertion | {"name": "", "salted_password": bytes(32)},
        upsertion | {"name": "odd", "mechanism": 7, "salted_password": bytes(32)},
        upsertion | {"name": "twice", "salted_password": bytes(32)},
        upsertion | {"name": "twice", "salted_password": bytes(32)},
    ]
    deletions = [{"name": "nobody", "mechanism": 1}]
    fields = {"deletions": deletions, "upsertions": many}
    answer = client.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, fields)
    assert {one.user: one.error_code for one in answer.results} == {
        "carol": Code.NONE,
        "text": Code.NONE,
        "none": Code.UNACCEPTABLE_CREDENTIAL,
        "few": Code.UNACCEPTABLE_CREDENTIAL,
        "many": Code.UNACCEPTABLE_CREDENTIAL,
        "": Code.UNACCEPTABLE_CREDENTIAL,
        "odd": Code.UNSUPPORTED_SASL_MECHANISM,
        "twice": Code.DUPLICATE_RESOURCE,
        "nobody": Code.RESOURCE_NOT_FOUND,
    }
    names = ("carol", "nobody", "alice", "alice")
    described = describe(client, *names)
    assert described == {
        "carol": (Code.NONE, [(1, 4096)]),
        "nobody": (Code.RESOURCE_NOT_FOUND, []),
        "alice": (Code.DUPLICATE_RESOURCE, []),
    }
    gone = [{"name": name, "mechanism": 1} for name in ("carol", "text")]
    client.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, {"deletions": gone, "upsertions": []})
    both = [(1, 8192), (2, 8192)]
    assert describe(client) == {"alice": (Code.NONE, both), "bob": (Code.NONE, both)}


def describe(client: RawClient, *names: str) -> dict[str, tuple[Code, list[tuple[int, int]]]]:
    users = [{"name": name} for name in names] if names else None
    answer = client.ask(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": users})
    return {
        one.user: (
            one.error_code,
            [(info.mechanism, info.iterations) for info in one.credential_infos],
        )
        for one in answer.results
    }


def test_too_many_changes_of_users_are_refused(client: RawClient) -> None:
    choose(client, "PLAIN")
    prove(client)
    deletions = [{"name": str(number), "mechanism": 1} for number in range(201)]
    fields = {"deletions": deletions, "upsertions": []}
    answer = client.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, fields)
    assert {one.error_code for one in answer.results} == {Code.INVALID_REQUEST}


class Still:
    """A clock that a test moves."""

    now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms


def test_a_session_ends_unless_it_is_proved_anew(tmp_path: Path) -> None:
    settings, clock = secured(tmp_path, "security.connections_max_reauth_ms=1500"), Still()
    (tmp_path / "data").mkdir()
    with running_node(tmp_path / "data", *settings) as node, closing(node.connect()) as client:
        assert choose(client, "PLAIN").error_code == Code.NONE
        listener = node.node._listener
        assert listener is not None
        (guard,) = (connection.guard for connection in listener.connections)
        assert isinstance(guard, SaslSession)
        guard._ports = replace(guard._ports, clock=cast("Clock", clock))
        assert prove(client).session_lifetime.total_seconds() == 1.5
        clock.now_ms = 999
        assert choose(client, "PLAIN").error_code == Code.ILLEGAL_SASL_STATE
        assert is_served(client)
        clock.now_ms = 1_000
        assert choose(client, "PLAIN").error_code == Code.NONE
        assert prove(client).error_code == Code.NONE
        clock.now_ms = 2_500  # longer than one session
        assert is_served(client)
        clock.now_ms = 2_501
        client.send(ApiKey.METADATA, 4, {"topics": []})
        assert client.is_closed_by_node()


def test_a_session_with_an_end_has_the_quotas_of_its_user(tmp_path: Path) -> None:
    settings = secured(tmp_path, "security.connections_max_reauth_ms=60000")
    (tmp_path / "data").mkdir()
    quota = QuotaChange(entity=entity_of([("user", "alice")]), values={"producer_byte_rate": 10.0})
    with running_node(tmp_path / "data", *settings) as node, closing(node.connect()) as client:
        node.submit(AlterQuotas(changes=(quota,)))
        choose(client, "PLAIN")
        assert prove(client).session_lifetime.total_seconds() == 60
        parts = [{"index": 0, "records": batch(b"v")}]
        data = [{"name": "absent", "partition_data": parts}]
        fields = {"transactional_id": None, "acks": 1, "timeout_ms": 5000, "topic_data": data}
        assert client.ask(ApiKey.PRODUCE, 9, fields).throttle_time.total_seconds() > 1


def test_who_proves_to_be_somebody_else_is_closed(tmp_path: Path) -> None:
    settings = secured(tmp_path, "security.connections_max_reauth_ms=60000")
    (tmp_path / "data").mkdir()
    with running_node(tmp_path / "data", *settings) as node, closing(node.connect()) as client:
        choose(client, "PLAIN")
        prove(client)
        while choose(client, "PLAIN").error_code:
            assert is_served(client)
        assert prove(client, b"\0bob\0p:b").error_code == Code.SASL_AUTHENTICATION_FAILED
        assert client.is_closed_by_node()


def test_who_has_begun_to_prove_it_anew_does_so_in_time_or_is_closed(tmp_path: Path) -> None:
    settings = secured(tmp_path, "security.connections_max_reauth_ms=60000")
    (tmp_path / "data").mkdir()
    with running_node(tmp_path / "data", *settings) as node, closing(node.connect()) as client:
        choose(client, "PLAIN")
        prove(client)
        listener = node.node._listener
        assert listener is not None

        def pass_seconds(count: int) -> None:
            for _ in range(count):
                node.call(listener.sweep)

        def begin_anew() -> None:
            while choose(client, "PLAIN").error_code:
                assert is_served(client)

        pass_seconds(AGAIN_SECONDS + 1)
        begin_anew()
        pass_seconds(AGAIN_SECONDS)
        assert prove(client).error_code == Code.NONE
        begin_anew()
        pass_seconds(AGAIN_SECONDS + 1)
        assert client.is_closed_by_node()


def test_strangers_hold_a_part_of_the_memory_and_a_user_is_left_alone(tmp_path: Path) -> None:
    """Their frames may have 576 KiB each: it was the whole budget, and others' fetches waited."""
    settings = secured(tmp_path, "net.unfinished_bytes_max=8388608")
    (tmp_path / "data").mkdir()
    head = struct.pack(">ihhih", 500_000, AUTHENTICATE, 1, 1, -1)
    with running_node(tmp_path / "data", *settings) as node, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(closing(node.connect())) for _ in range(30)]
        user = clients.pop()
        choose(user, "PLAIN")
        prove(user)
        user.send_bytes(struct.pack(">ihhih", 500_000, ApiKey.PRODUCE, 1, 1, -1) + bytes(60_000))
        for client in clients:
            client.send_bytes(head + bytes(60_000))
        listener = node.node._listener
        assert listener is not None
        part, closed = 8_388_608 // UNPROVEN_PART, listener.stats.closed
        assert node.until(lambda: closed[CloseKind.MEMORY] >= len(clients) - part // 60_000)
        held = node.call(lambda: [one.received_bytes for one in listener.connections])
        assert sum(held) <= part + 60_014 + SAVED_BYTES_MAX
        assert principals(node).count("User:alice") == 1


def test_who_guesses_without_end_does_not_fill_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "data").mkdir()
    with running_node(tmp_path / "data", *secured(tmp_path)) as node:
        for _ in range(failed_logins.LINES_OF_ADDRESS + 2):
            with closing(node.connect()) as client:
                choose(client, "PLAIN")
                assert prove(client, WRONG).error_code == Code.SASL_AUTHENTICATION_FAILED
            with closing(node.connect()) as client:
                client.send(ApiKey.METADATA, 4, {"topics": []})
                assert client.is_closed_by_node()
    told = [one for one in caplog.messages if one.startswith("client=127.0.0.1 ")]
    assert len(told) == failed_logins.LINES_OF_ADDRESS
