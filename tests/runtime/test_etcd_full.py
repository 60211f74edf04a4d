"""An etcd whose database is full: what it refuses, and what it takes all the same."""

from pathlib import Path
from typing import Any

import pytest

from penstock.controller.errors import MetadataLogFull
from penstock.runtime.etcd.client import EtcdRefused
from penstock.runtime.etcd.store import Store
from tests.integration.etcd_members import Members
from tests.integration.etcd_server import EtcdServer, why_no_etcd
from tests.runtime.test_etcd_log import lead

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(60),
    pytest.mark.skipif(why_no_etcd() is not None, reason=str(why_no_etcd())),
]


def test_full_etcd_refuses_changes_and_says_what_to_do(tmp_path: Path) -> None:
    with (
        EtcdServer(tmp_path / "etcd", "--quota-backend-bytes", "1000000") as etcd,
        Members(tmp_path, etcd.url) as members,
    ):
        member, machine = lead(members, 1)
        outcomes = [member.propose(b"x" * 60_000)[0] for _ in range(40)]
        assert isinstance(outcomes[-1], MetadataLogFull)
        assert "compact and defragment it" in str(outcomes[-1])
        taken = [one for one in outcomes if isinstance(one, int)]
        assert len(machine.state) == len(taken) == member.log.applied_index
        assert member.log.leadership.is_leader


def test_a_change_that_etcd_takes_and_refuses_in_one_answer_is_told_as_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its quota is looked at again when a change is carried out, and by then it is done."""
    with (
        EtcdServer(tmp_path / "etcd") as etcd,
        Members(tmp_path, etcd.url) as members,
    ):
        member, machine = lead(members, 1)
        append = Store.append

        async def filling(store: Store, *arguments: Any) -> bool:
            monkeypatch.setattr(Store, "append", append)
            assert await append(store, *arguments)
            raise EtcdRefused(8, "etcdserver: mvcc: database space exceeded")

        monkeypatch.setattr(Store, "append", filling)
        assert member.propose(b"a") == [1]
        assert member.propose(b"b") == [2]
        assert machine.state == [b"a", b"b"]
        assert member.log.leadership.is_leader
