"""The process as a whole: how it starts and ends, TLS, nodes that want signatures or are away."""

import json
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness.http_front import TOKEN, TOKENS, Events, HttpFailed, HttpProcess, all_of
from harness.ports import free_port
from harness.waiting import UNTIL_SECONDS, wait_until
from penstock.controller.commands.command import CreateTopics, NewTopic
from tests.access.certificates import Authority
from tests.live_node import LiveNode
from tests.remoting.served import running_remoting_node
from tests.remoting.signing import SECRETS, keys_file

pytestmark = pytest.mark.process


def test_sigterm_answers_those_who_wait_ends_streams_and_is_a_clean_end(
    served: tuple[LiveNode, str], topic: str, tmp_path: Path
) -> None:
    answers = []
    with HttpProcess(tmp_path, [served[1]]) as front:
        front.produce(topic, *({"value": str(n), "key": "k"} for n in range(3)))
        stream = Events(
            front, f"/v1/topics/{topic}/groups/g/stream?in_flight=1&invisible_seconds=600"
        )
        assert stream.next()[1]["value"] == "0"

        def wait() -> None:
            answers.append(front.receive(topic, "empty", wait_seconds=30, begin="end"))

        waiting = threading.Thread(target=wait)
        waiting.start()
        assert wait_until(lambda: front.metric("penstock_http_waiting") == 2, 60)
        with closing(front.raw()) as idle:
            front.terminate()
            waiting.join(UNTIL_SECONDS)
            assert stream.next()[0] == "end"
            assert stream.next()[0] == "closed"
            assert idle.recv(1) == b""
        stream.close()
        assert front.wait() == 0
        assert [(one.status, one.document) for one in answers] == [(200, {"messages": []})]
        assert "Traceback" not in front.log(), front.log()
        with pytest.raises(OSError):  # noqa: PT011  refused
            front.raw()


def test_what_was_handed_out_by_one_that_was_killed_is_settled_at_another(
    served: tuple[LiveNode, str], topic: str, tmp_path: Path
) -> None:
    with HttpProcess(tmp_path / "1", [served[1]]) as first:
        first.produce(topic, {"value": "a", "key": "k"}, {"value": "b", "key": "k"})
        a, b = first.receive(topic, wait_seconds=20, invisible_seconds=600).receipts
        first.kill()
    with HttpProcess(tmp_path / "2", [served[1]]) as second:
        assert second.say("ack", topic, [a]).status == 200
        assert second.say("release", topic, [b]).status == 200
        (again,) = second.receive(topic, wait_seconds=20).messages
        assert (again["value"], again["attempt"]) == ("b", 2)
        assert second.say("ack", topic, [b]).status == 410


def test_without_nodes_it_is_not_well_and_says_what_to_look_at(tmp_path: Path) -> None:
    with HttpProcess(tmp_path, [f"127.0.0.1:{free_port()}"]) as front:
        answer = front.ask("GET", "/health", token=None)
        assert (answer.status, answer.document["code"]) == (503, "no-node")
        answer = front.ask("POST", "/v1/topics/t/groups/g/receive", {})
        assert (answer.status, answer.document["code"]) == (503, "no-node")
        assert answer.headers["retry-after"] == "1"


def test_a_node_that_speaks_something_else_is_no_node(
    node: LiveNode, front: HttpProcess, tmp_path: Path
) -> None:
    others = [f"127.0.0.1:{node.port}", front.address]
    with HttpProcess(tmp_path, others) as other:
        assert other.ask("GET", "/health", token=None).status == 503
        assert "Traceback" not in other.log(), other.log()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def test_it_talks_tls_and_follows_its_certificate(
    served: tuple[LiveNode, str], topic: str, tmp_path: Path, authority: Authority
) -> None:
    certificate, key = authority.issue("front", "/CN=front")
    options = ["--tls-cert", certificate, "--tls-key", key]
    context = ssl.create_default_context(cafile=authority.file)
    with HttpProcess(tmp_path, [served[1]], options=options, tls=context) as front:
        front.produce(topic, "over TLS")
        assert [one["value"] for one in all_of(front, topic, "g", 1)] == ["over TLS"]
        with closing(front.raw()) as plain:
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert not plain.recv(1000).startswith(b"HTTP")
        with closing(front.raw()):  # one whose handshake never begins keeps nobody from his
            assert front.ask("GET", "/health").status == 200
        stranger = Authority(tmp_path / "stranger")
        for new, used in zip(stranger.issue("front", "/CN=f"), (certificate, key), strict=True):
            Path(new).replace(used)

        def is_new() -> bool:
            try:
                front.ask("GET", "/health")
            except ssl.SSLCertVerificationError:
                return True
            return False

        assert wait_until(is_new, 60)
        assert "Traceback" not in front.log(), front.log()


@pytest.fixture(scope="module")
def signed(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[LiveNode, str]]:
    directory = tmp_path_factory.mktemp("signed")
    (directory / "data").mkdir()
    settings = (
        "security.listener_security_protocol_map=remoting:SASL_PLAINTEXT",
        f"security.remoting_access_keys_file={keys_file(directory)}",
        "access.authorizer=acl",
        "access.super_users=User:alice",
    )
    with running_remoting_node(directory / "data", *settings) as (node, address):
        node.submit(CreateTopics(topics=(NewTopic(name="signed", partition_count=1),)))
        yield node, address


def test_the_nodes_judge_the_user_of_a_tokens_access_key(
    signed: tuple[LiveNode, str], tmp_path: Path
) -> None:
    tokens = f"""
[nodes]
access_key = "bob"
secret = "{SECRETS["bob"]}"
{TOKENS}
[[token]]
name = "of alice"
token = "{TOKEN}-alice"
produce = ["*"]
consume = ["*"]
groups = ["*"]
access_key = "alice"
secret = "{SECRETS["alice"]}"
[[token]]
name = "of nobody"
token = "{TOKEN}-nobody"
produce = ["*"]
access_key = "alice"
secret = "not the secret of alice"
"""
    path, body = "/v1/topics/signed/messages", {"messages": [{"value": "x"}]}
    with HttpProcess(tmp_path, [signed[1]], tokens=tokens) as front:
        for _ in range(2):
            assert front.ask("POST", path, body, token=TOKEN + "-alice").status == 200
            for token in (TOKEN, TOKEN + "-nobody"):
                answer = front.ask("POST", path, body, token=token)
                assert (answer.status, answer.document["code"]) == (403, "refused-by-node")
        assert front.ask("GET", "/health", token=None).status == 200
    with HttpProcess(tmp_path / "unsigned", [signed[1]]) as front:
        answer = front.ask("POST", path, body)
        assert (answer.status, answer.document["code"]) == (403, "refused-by-node")


def test_it_talks_tls_to_nodes_that_want_it(tmp_path: Path, authority: Authority) -> None:
    certificate, key = authority.issue("node", "/CN=node")
    (tmp_path / "data").mkdir()
    settings = (
        "security.listener_security_protocol_map=remoting:SSL",
        f"security.ssl_certificate_file={certificate}",
        f"security.ssl_key_file={key}",
    )
    with running_remoting_node(tmp_path / "data", *settings) as (node, address):
        node.submit(CreateTopics(topics=(NewTopic(name="t", partition_count=1),)))
        options = ["--node-ca", authority.file]
        with HttpProcess(tmp_path / "http", [address], options=options) as front:
            assert front.produce("t", "x").status == 200


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--listen 0.0.0.0:8080", "tokens in the clear"),
        ("--listen nowhere", "write host:port"),
        ("--listen 127.0.0.1:99999", "write host:port"),
        ("--bootstrap ,", "names no node"),
        ("--bootstrap here", "write host:port"),
        ("--tls-cert c.pem", "belong together"),
        ("--tokens none.toml", "can not be read"),
        ("--node-ca none.pem", "can not be used"),
    ],
)
def test_options_that_can_not_be_are_refused_in_one_line(
    tmp_path: Path, words: str, why: str
) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.touch(0o600)
    tokens.write_text(TOKENS)
    penstock = str(Path(sys.executable).with_name("penstock"))
    done = subprocess.run(
        [penstock, "http", "--tokens", str(tokens), *words.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=UNTIL_SECONDS,
        check=False,
    )
    assert done.returncode == 2
    assert why in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_port_that_is_in_use_is_refused(
    front: HttpProcess, served: tuple[LiveNode, str], tmp_path: Path
) -> None:
    other = HttpProcess(tmp_path, [served[1]], options=["--listen", front.address])
    with pytest.raises(HttpFailed, match="in use"):
        other.start()
    assert other.wait() == 2


def test_the_openapi_document_has_every_request_and_only_schemas_that_are_there(
    front: HttpProcess,
) -> None:
    text = front.ask("GET", "/openapi.json", token=None).body.decode()
    told = json.loads(text)
    names = {one["operationId"] for path in told["paths"].values() for one in
             (path[method] for method in ("get", "post") if method in path)}  # fmt: skip
    words = {"produce", "receive", "stream", "ack", "release", "renew", "reject"}
    assert names == words | {"health", "metrics", "openapi", "docs"}
    schemas = told["components"]["schemas"]
    used = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert used <= set(schemas)
    page = front.ask("GET", "/docs", token=None).body.decode()
    assert all(path in page for path in told["paths"])
