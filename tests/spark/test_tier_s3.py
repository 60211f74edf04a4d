"""History from a real S3 server: credentials of the executors' own, and a server that is away."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import s3_server
from harness.node import NodeProcess
from harness.s3_server import S3Server
from penstock.spark.errors import HistoryUnreadable
from tests.integration.test_housekeeper import metric
from tests.spark.history import filled, partitions, read, reader, rows, tiered, tiered_node

pytestmark = [
    pytest.mark.spark,
    pytest.mark.process,
    pytest.mark.compat,
    pytest.mark.timeout(300),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    program = s3_server.binary()
    if isinstance(program, str):
        pytest.skip(program)
    with S3Server(program, tmp_path / "s3") as server:
        yield server


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{s3_server.SECRET}\n")
    return path


@pytest.fixture
def node(server: S3Server, secret: Path, tmp_path: Path) -> Iterator[NodeProcess]:
    own = {
        "endpoint": server.endpoint,
        "region": s3_server.REGION,
        "access_key_id": s3_server.ACCESS,
        "secret_key_file": str(secret),
    }
    with tiered_node(tmp_path / "node", "s3://tier/of/one", **own) as node:
        yield node


def test_a_bucket_is_read_with_the_credentials_of_driver_and_executors(
    node: NodeProcess,
    server: S3Server,
    secret: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = filled(node)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    with pytest.raises(HistoryUnreadable, match="no credentials: set AWS_ACCESS_KEY_ID"):
        read(node, tier="required")
    by_file = {"tierAccessKeyId": s3_server.ACCESS, "tierSecretKeyFile": str(secret)}
    before = metric(node, "penstock_tier_reads_total")
    assert [row["value"] for row in read(node, tier="required", **by_file)] == values

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.SECRET)
    reading = reader(node, tier="required")
    parts = partitions(reading)
    assert tiered(parts)
    assert [row["value"] for row in rows(reading, parts)] == values
    assert metric(node, "penstock_tier_reads_total") == before, "a broker read the store"

    wrong = secret.with_name("wrong")
    wrong.write_text("not this one")
    by_wrong = {"tierAccessKeyId": s3_server.ACCESS, "tierSecretKeyFile": str(wrong)}
    with pytest.raises(HistoryUnreadable, match="can not be read from the tier"):
        read(node, tier="required", **by_wrong)
    capsys.readouterr()
    assert [row["value"] for row in read(node, **by_wrong)] == values
    assert capsys.readouterr().err.count("comes from brokers") == 1

    server.stop()
    with pytest.raises(HistoryUnreadable, match="from offset 0 can not be read"):
        rows(reader(node, tier="required", brokerTimeout="1s"), parts)
