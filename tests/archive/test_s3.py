"""An archive in a bucket of a real S3 server, queried there, verified and replayed."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyarrow import fs

from harness import s3_server
from harness.s3_server import S3Server
from tests.archive.test_commands import run, told
from tests.archive.test_replay import committed
from tests.integration.layouts import run_penstock
from tests.spark.topics import Topics

pytestmark = [pytest.mark.process, pytest.mark.compat]

PLACE = "s3://tier/archives/orders"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    program = s3_server.binary()
    if isinstance(program, str):
        pytest.skip(program)
    with S3Server(program, tmp_path / "s3") as server:
        yield server


def test_a_topic_is_kept_in_a_bucket_and_replayed_from_it(
    topics: Topics, server: S3Server, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{s3_server.SECRET}\n")
    secret.chmod(0o600)
    keys = {
        "endpoint": server.endpoint,
        "region": s3_server.REGION,
        "access-key-id": s3_server.ACCESS,
        "secret-key-file": str(secret),
    }
    store = [word for key, value in keys.items() for word in ("--store", f"{key}={value}")]
    topic, target = topics.make(2), topics.make(1, {"retention.ms": "-1"})
    for _ in range(2):
        topics.fill(topic, [b"a", b"b"], partition=1)
        code, said = run(topics, "archive", "run", topic, "--to", PLACE, *store)
        assert code == 0, said
    assert told("archive", "verify", PLACE, *store) == []
    files = fs.S3FileSystem(
        endpoint_override=server.endpoint,
        region=s3_server.REGION,
        access_key=s3_server.ACCESS,
        secret_key=s3_server.SECRET,
    )
    table = ds.dataset("tier/archives/orders", filesystem=files, partitioning="hive").to_table()
    assert sorted(table.column("offset").to_pylist()) == [0, 1, 2, 3]
    (done,) = told("replay", PLACE, "--to-topic", target, "-b", topics.bootstrap, *store)
    assert done["records"] == len(committed(topics, target)) == 4
    (row,) = told("archive", "prune", PLACE, "--keep", "1d", *store)
    assert row["records"] == 4
    (path,) = (server.path / "objects" / "tier").rglob("*/entries/*1.json")
    path.unlink()
    code, said = run_penstock("archive", "ls", PLACE, *store)
    assert code == 1
    assert path.name in said
