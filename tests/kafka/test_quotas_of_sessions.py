"""Quotas of clients whose proof has an end: a provider's token, a delegation token, a setting."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.controller.commands.access.commands import AlterQuotas, QuotaChange
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from penstock.quotas.entities import entity_of
from penstock.quotas.keys import QuotaKey
from tests.kafka.test_sasl import choose, prove, secured
from tests.live_node import LiveNode, RawClient, running_node

SECOND_MS = 1_000


@pytest.fixture(params=[0, 3_600_000], ids=["for ever", "for an hour"])
def node(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LiveNode]:
    """A node on which nobody may use any time of the loop."""
    settings = secured(tmp_path, f"security.connections_max_reauth_ms={request.param}")
    (tmp_path / "data").mkdir()
    with running_node(tmp_path / "data", *settings) as node:
        everybody = entity_of([("user", None)])
        change = QuotaChange(entity=everybody, values={QuotaKey.REQUEST: 0.0})
        (outcome,) = node.submit(AlterQuotas(changes=(change,)))
        assert outcome.error is None
        yield node


@pytest.fixture
def client(node: LiveNode) -> Iterator[RawClient]:
    with closing(node.connect()) as client:
        yield client


def log_in(client: RawClient) -> None:
    assert choose(client, "PLAIN").error_code == Code.NONE
    assert prove(client).error_code == Code.NONE


def told_ms(client: RawClient) -> int:
    answer: Any = client.ask(ApiKey.METADATA, 4, {"topics": []})
    return round(answer.throttle_time.total_seconds() * 1000)


def test_a_user_has_the_same_quotas_however_long_a_proof_counts(client: RawClient) -> None:
    log_in(client)
    told_ms(client)  # what it took counts for the next one
    assert told_ms(client) == SECOND_MS


def test_who_has_not_said_who_it_is_has_no_quotas(client: RawClient) -> None:
    for _ in range(2):
        assert not client.ask(ApiKey.API_VERSIONS, 2, {}).throttle_time


@pytest.mark.parametrize("node", [3_600_000], indirect=True)
def test_a_user_over_a_quota_proves_anew_who_it_is(client: RawClient) -> None:
    """Answers to a proof have no field for a delay."""
    log_in(client)
    told_ms(client)
    assert told_ms(client) == SECOND_MS  # the next one is read when it is over: a proof may be made
    log_in(client)
    assert told_ms(client) == SECOND_MS
