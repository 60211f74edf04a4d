"""What the audit tells of a client before it has said who it is: that somebody was there."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from penstock.audit.row import RowKey, Who
from penstock.broker.access import ANONYMOUS
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.protocol.header import request_header
from penstock.protocol.messages import encode_request
from tests.kafka.test_sasl import choose, prove, secured
from tests.live_node import LiveNode, RawClient, running_node

STRANGER = Who(ANONYMOUS, "", "", "", "127.0.0.1")
SOFTWARE = {"client_software_name": "some", "client_software_version": "1"}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LiveNode]:
    settings = secured(tmp_path, "broker.audit=true", "broker.audit_fold_ms=3600000")
    (tmp_path / "data").mkdir()
    with running_node(tmp_path / "data", *settings) as node:
        yield node


@pytest.fixture
def client(node: LiveNode) -> Iterator[RawClient]:
    with closing(node.connect()) as client:
        yield client


def keys(node: LiveNode) -> set[RowKey]:
    audit = node.broker.audit
    assert audit is not None
    return node.call(lambda: set(audit.fold._rows))


def test_client_ids_that_strangers_invent_make_no_rows(node: LiveNode, client: RawClient) -> None:
    for number in range(20):
        head = request_header(
            ApiKey.API_VERSIONS, 3, correlation_id=1, client_id=f"invented-{number}"
        )
        body = encode_request(ApiKey.API_VERSIONS, 3, SOFTWARE)
        client.send_bytes((len(head) + len(body)).to_bytes(4, "big") + head + body)
        assert client.receive_frame()
    assert keys(node) == {RowKey(STRANGER, "api_versions")}


def test_from_the_proof_on_a_client_is_told_whole(node: LiveNode, client: RawClient) -> None:
    client.ask(ApiKey.API_VERSIONS, 3, SOFTWARE)
    choose(client, "PLAIN")
    assert prove(client).error_code == Code.NONE
    client.ask(ApiKey.API_VERSIONS, 3, SOFTWARE)
    client.ask(ApiKey.METADATA, 4, {"topics": []})
    alice = Who("User:alice", "raw-client", "some", "1", "127.0.0.1")
    names = {key.operation: key.who for key in keys(node) if key.who.principal != ANONYMOUS}
    assert names["metadata"] == names["api_versions"] == alice
    strangers = {key for key in keys(node) if key.who.principal == ANONYMOUS}
    asked = ("api_versions", "sasl_handshake", "sasl_authenticate")
    assert strangers == {RowKey(STRANGER, name) for name in asked}
