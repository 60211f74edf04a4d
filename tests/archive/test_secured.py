"""Archives and replays in a closed cluster: commands come in by the client configuration."""

from pathlib import Path

import pytest

from penstock.access.rules import AclOperation
from penstock.cli.connect import CLIENT_CONFIG_VARIABLE
from tests.integration.layouts import run_penstock
from tests.spark.secured import ADMIN, JOB, SECRET, closed_node
from tests.spark.stock import read_committed

FOREVER = {"retention.ms": "-1"}


def test_a_topic_of_a_closed_cluster_is_archived_and_replayed(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "node").mkdir()
    with closed_node(tmp_path / "node") as closed:
        source, target = closed.topics.make(), closed.topics.make(configs=FOREVER)
        closed.topics.fill(source, [b"a", b"b"])
        where = ("-b", closed.bootstrap)
        run = ("archive", "run", source, "--to", str(archive), *where)
        monkeypatch.setenv(CLIENT_CONFIG_VARIABLE, str(closed.properties(JOB)))
        code, said = run_penstock(*run)
        assert (code, "TOPIC_AUTHORIZATION_FAILED" in said) == (1, True), said
        closed.allow(AclOperation.READ, source)
        code, said = run_penstock(*run)
        assert code == 0, said
        replay = ("replay", str(archive), "--to-topic", target, *where)
        code, said = run_penstock(*replay)
        assert code == 1, said
        assert SECRET not in said
        monkeypatch.setenv(CLIENT_CONFIG_VARIABLE, str(closed.properties(ADMIN)))
        code, said = run_penstock(*replay)
        assert code == 0, said
        login = closed.login(ADMIN).librdkafka()
        read = read_committed(closed.bootstrap, target, login=login)
        assert read == {b"a": 1, b"b": 1}
    kept = [path.read_bytes() for path in archive.rglob("*") if path.is_file()]
    assert kept
    assert SECRET.encode() not in b"".join(kept)
