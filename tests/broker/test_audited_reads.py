"""What the audit tells of bytes that came from the disk, by a running node."""

from contextlib import closing
from pathlib import Path

import pytest

from penstock.protocol.api_keys import ApiKey
from penstock.runtime.io.disk import FileHandle
from tests.broker.fetches import SIZE, create, fetch_from, fill, offsets
from tests.live_node import running_node


def test_bytes_from_the_disk_are_told_apart_read_ahead_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_node(tmp_path, "broker.audit=true") as node, closing(node.connect()) as client:
        create(node, partitions=1)
        fill(client, 12)
        client.ask(ApiKey.FETCH, 11, fetch_from(0, partition_max=2 * SIZE))
        gather = FileHandle.gather_cached
        monkeypatch.setattr(FileHandle, "gather_cached", lambda *_: [])
        for offset in (2, 4):
            client.ask(ApiKey.FETCH, 11, fetch_from(offset, partition_max=2 * SIZE))
        assert node.until(lambda: node.broker.read_ahead.kept_bytes)
        monkeypatch.setattr(FileHandle, "gather_cached", gather)
        ahead = client.ask(ApiKey.FETCH, 11, fetch_from(6, partition_max=2 * SIZE))
        assert offsets(ahead) == [6, 7]
        assert node.broker.stats.reads_ahead_used >= 1
        audit = node.broker.audit
        assert audit is not None
        told = {key[1:]: one for key, one in audit.fold._rows.items()}
        row = told["fetch", "events", 0]
    assert (row.requests, row.records) == (4, 8)
    assert (row.bytes_out, row.bytes_cold) == (8 * SIZE, 6 * SIZE)
