"""Several members over a real etcd: who leads, what is kept, what happens when things go away."""

import itertools
import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.controller.errors import (
    MetadataError,
    MetadataLogFenced,
    MetadataUnavailable,
    NotActiveController,
)
from penstock.controller.replicated_log import NO_LEADER
from penstock.runtime.etcd import EtcdConfig
from penstock.runtime.etcd.client import EtcdClient, EtcdUnavailable
from penstock.runtime.etcd.entry import NO_ENTRY, PART_BYTES, Entry, EntryId
from penstock.runtime.etcd.store import Store, Won
from penstock.runtime.etcd.wire import EmptyAnswer, Request, delete_range, txn
from tests.controller.replicated_log_contract import Machine
from tests.integration.etcd_members import Member, Members
from tests.integration.etcd_proxy import EtcdProxy
from tests.integration.etcd_server import EtcdServer, etcd_cluster, why_no_etcd

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(60),
    pytest.mark.skipif(why_no_etcd() is not None, reason=str(why_no_etcd())),
]

_cluster_ids = itertools.count(1)


@pytest.fixture(scope="module")
def shared_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with EtcdServer(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture
def members(shared_etcd: EtcdServer, tmp_path: Path) -> Iterator[Members]:
    """Members over an etcd that other tests use too."""
    with Members(tmp_path, shared_etcd.url, cluster_id=f"log-{next(_cluster_ids)}") as members:
        yield members


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdServer]:
    """An etcd that the test may kill."""
    with EtcdServer(tmp_path / "etcd") as server:
        yield server


def lead(members: Members, peer_id: int) -> tuple[Member, Machine]:
    """Start a controller and wait until it leads."""
    member, machine = members.member(peer_id), Machine()
    log = member.start(machine)
    members.wait(lambda: log.leadership.is_leader)
    return member, machine


def follow(
    members: Members, peer_id: int, leader_id: int, *, is_controller: bool = True
) -> tuple[Member, Machine]:
    """Start a process and wait until it knows who leads."""
    member, machine = members.member(peer_id, is_controller=is_controller), Machine()
    log = member.start(machine)
    members.wait(lambda: log.leadership.leader_id == leader_id)
    return member, machine


def test_everybody_applies_what_the_leader_wrote(members: Members) -> None:
    first, machine = lead(members, 1)
    _, second = follow(members, 2, 1)
    _, broker = follow(members, 3, 1, is_controller=False)
    assert first.propose(*[b"%d" % number for number in range(250)]) == list(range(1, 251))
    members.wait(lambda: second.index == broker.index == 250)
    assert machine.state == second.state == broker.state


def test_proposal_of_a_follower_is_refused_and_names_the_leader(members: Members) -> None:
    lead(members, 1)
    second, machine = follow(members, 2, 1)
    (refused,) = second.propose(b"a")
    assert isinstance(refused, NotActiveController)
    assert refused.controller_id == 1
    assert machine.state == []


def test_another_controller_leads_after_the_leader_was_killed(members: Members) -> None:
    first, _ = lead(members, 1)
    second, machine = follow(members, 2, 1)
    first.propose(b"a")
    first.crash()
    members.wait(lambda: second.log.leadership.is_leader)
    assert second.log.leadership.term == 2
    assert machine.state == [b"a"]
    assert second.propose(b"b") == [2]


def test_broker_that_is_no_controller_never_leads(members: Members) -> None:
    first, _ = lead(members, 1)
    broker, _ = follow(members, 3, 1, is_controller=False)
    first.close()
    members.wait(lambda: broker.log.leadership.leader_id == NO_LEADER)
    members.pass_time(0.3)
    assert not any(heard.is_leader for heard in broker.heard)


def test_leader_that_stops_gives_its_lease_back(members: Members) -> None:
    first, _ = lead(members, 1)
    second, _ = follow(members, 2, 1)
    first.close()
    before = len(second.heard)
    members.wait(lambda: second.log.leadership.is_leader)
    assert len(second.heard) - before <= 3
    assert [one.is_leader for one in first.heard][-1] is False


def test_leader_that_resigns_leaves_it_to_another_and_stands_again_if_alone(
    members: Members,
) -> None:
    first, _ = lead(members, 1)
    second, _ = follow(members, 2, 1)
    first.log.resign()
    assert not first.log.leadership.is_leader
    members.wait(lambda: second.log.leadership.is_leader)
    assert second.propose(b"a") == [1]
    first.close()
    second.log.resign()
    members.wait(lambda: second.log.leadership.is_leader)
    assert second.log.leadership.term == 3


def test_restarted_leader_leads_again_without_waiting_for_its_old_lease(members: Members) -> None:
    first, _ = lead(members, 1)
    first.propose(b"a")
    first.crash()
    machine = Machine()
    first.start(machine)
    assert machine.state == [b"a"]
    members.wait(lambda: first.log.leadership.is_leader)
    assert first.log.leadership.term == 2


def test_entry_whose_answer_was_lost_is_there_once(shared_etcd: EtcdServer, tmp_path: Path) -> None:
    with Members(tmp_path, cluster_id="lost-answer") as members:
        proxy = proxied(members, shared_etcd)
        member, machine = lead(members, 1)
        outcomes: list[object] = []
        for number in range(5):
            proxy.loses_answers = True
            member.log.propose(b"%d" % number, outcomes.append)
            members.wait(lambda number=number: len(outcomes) == number + 1)  # type: ignore[misc]
        assert outcomes == [1, 2, 3, 4, 5]
        assert machine.state == [b"0", b"1", b"2", b"3", b"4"]
        members.run(proxy.stop())


def proxied(members: Members, etcd: EtcdServer) -> EtcdProxy:
    """Put a proxy between the members that are opened from now on and etcd."""
    proxy = EtcdProxy(etcd.url)
    members.run(proxy.start())
    members.config = EtcdConfig(endpoints=(proxy.url,), lease_ttl_s=2)
    return proxy


def test_leader_that_is_cut_off_stops_leading_before_another_one_begins(
    shared_etcd: EtcdServer, tmp_path: Path
) -> None:
    with Members(tmp_path, shared_etcd.url, cluster_id="cut-off") as members:
        direct = members.config
        proxy = proxied(members, shared_etcd)
        first, _ = lead(members, 1)
        members.config = direct
        second, _ = follow(members, 2, 1)
        proxy.cut()
        members.wait(lambda: not first.log.leadership.is_leader)
        assert not second.log.leadership.is_leader
        members.wait(lambda: second.log.leadership.is_leader)
        (refused,) = first.propose(b"late")
        assert isinstance(refused, NotActiveController)
        proxy.mend()
        members.wait(lambda: first.log.leadership.leader_id == 2)
        members.run(proxy.stop())


def test_proposal_under_way_fails_when_the_leader_is_cut_off(
    shared_etcd: EtcdServer, tmp_path: Path
) -> None:
    with Members(tmp_path, cluster_id="cut-off-open") as members:
        proxy = proxied(members, shared_etcd)
        first, machine = lead(members, 1)
        proxy.cut()
        (outcome,) = first.propose(b"a")
        assert isinstance(outcome, MetadataUnavailable)
        assert first.heard[-1].is_leader is False
        assert machine.state == []
        members.run(proxy.stop())


def test_leader_goes_on_after_etcd_was_killed_and_restarted(
    etcd: EtcdServer, tmp_path: Path
) -> None:
    with Members(tmp_path, etcd.url) as members:
        first, machine = lead(members, 1)
        _, second = follow(members, 2, 1)
        first.propose(b"a")
        etcd.kill()
        members.wait(lambda: not first.log.leadership.is_leader)
        etcd.start()
        members.wait(
            lambda: any(one.log.leadership.is_leader for one in members.all),
        )
        leader = next(one for one in members.all if one.log.leadership.is_leader)
        assert leader.propose(b"b") == [2]
        members.wait(lambda: machine.index == second.index == 2)


def test_process_that_starts_without_etcd_has_what_it_had(etcd: EtcdServer, tmp_path: Path) -> None:
    with Members(tmp_path, etcd.url) as members:
        first, _ = lead(members, 1)
        broker, follower = follow(members, 2, 1, is_controller=False)
        first.propose(b"a", b"b", b"c")
        members.wait(lambda: follower.index == 3)
        first.close()
        broker.close()
        etcd.kill()
        machine = Machine()
        broker.start(machine)
        assert machine.state == [b"a", b"b", b"c"]
        assert broker.log.leadership.leader_id == NO_LEADER
        assert broker.log.leadership.term == 1
        etcd.start()


def test_member_that_was_away_installs_the_snapshot(members: Members) -> None:
    first, machine = lead(members, 1)
    second, _ = follow(members, 2, 1)
    first.propose(b"a", b"b")
    second.close()
    first.propose(b"c")
    first.log.trim(3, machine.snapshot())
    members.wait(lambda: first.log.is_idle)
    first.propose(b"d")
    behind = Machine()
    second.start(behind)
    members.wait(lambda: behind.index == 4)
    assert behind.state == [b"a", b"b", b"c", b"d"]
    assert behind.events[-2:] == ["snapshot 3", "apply 4"]
    second.close()
    again = Machine()
    second.start(again)
    assert again.events == ["snapshot 3", "apply 4"]
    assert again.state == behind.state


def test_payloads_and_snapshots_larger_than_a_request_reach_everybody(members: Members) -> None:
    first, machine = lead(members, 1)
    _, second = follow(members, 2, 1)
    large = b"x" * 3_000_000
    assert first.propose(large, b"a", large) == [1, 2, 3]
    members.wait(lambda: second.index == 3)
    assert second.state == [large, b"a", large]
    first.log.trim(3, machine.snapshot())
    members.wait(lambda: first.log.is_idle)
    _, third = follow(members, 3, 1)
    members.wait(lambda: third.index == 3)
    assert third.state == [large, b"a", large]
    parts_of_the_snapshot = -(-len(machine.snapshot()) // PART_BYTES)
    assert len(keys_of(members)) == 4 + parts_of_the_snapshot  # head, leader, snapshot, term


def keys_of(members: Members) -> list[bytes]:
    """Return the keys of the cluster that stand in etcd."""

    async def read() -> list[bytes]:
        client = EtcdClient(members.config)
        everything: Request = {
            "request_range": {
                "key": f"/penstock/{members.cluster_id}/".encode(),
                "range_end": f"/penstock/{members.cluster_id}0".encode(),
                "keys_only": True,
            }
        }
        try:
            found = (await client.txn(txn([], [everything]))).responses[0].response_range
        finally:
            await client.close()
        return [pair.key for pair in found.kvs] if found is not None else []

    keys: list[bytes] = members.run(read())
    return keys


def test_watch_of_compacted_revisions_is_followed_by_reading(
    shared_etcd: EtcdServer, tmp_path: Path
) -> None:
    with Members(tmp_path, shared_etcd.url, cluster_id="compacted") as members:
        first, _ = lead(members, 1)
        proxy = proxied(members, shared_etcd)
        _, second = follow(members, 2, 1, is_controller=False)
        proxy.cut()
        first.propose(*[b"%d" % number for number in range(40)])
        members.run(compact(members, shared_etcd))
        proxy.mend()
        members.wait(lambda: second.index == 40)
        first.propose(b"later")
        members.wait(lambda: second.index == 41)
        members.run(proxy.stop())


async def compact(members: Members, etcd: EtcdServer) -> None:
    client = EtcdClient(EtcdConfig(endpoints=(etcd.url,)))
    view = await Store(client, "/penstock", members.cluster_id).view()
    await client._call("/v3/kv/compaction", {"revision": str(view.revision)}, EmptyAnswer)
    await client.close()


def test_emptied_etcd_ends_the_log_instead_of_forgetting(members: Members) -> None:
    first, machine = lead(members, 1)
    first.propose(b"a", b"b")

    async def remove_everything() -> None:
        client = EtcdClient(members.config)
        start = f"/penstock/{members.cluster_id}"
        await client.txn(txn([], [delete_range(f"{start}/".encode(), f"{start}0".encode())]))
        await client.close()

    members.run(remove_everything())
    members.wait(lambda: first.log.is_fenced)
    assert "restored from an older copy" in str(first.fenced[0])
    assert machine.state == [b"a", b"b"]
    (refused,) = first.propose(b"c")
    assert isinstance(refused, MetadataLogFenced)


def test_another_history_in_etcd_is_refused(members: Members, tmp_path: Path) -> None:
    first, _ = lead(members, 1)
    first.propose(b"a", b"b")
    first.close()
    with Members(tmp_path, *members.config.endpoints, cluster_id="other-history") as others:
        other, _ = lead(others, 9)
        other.propose(b"x", b"y", b"z")
        moved, machine = others.member(1), Machine()
        log = moved.start(machine)
        others.wait(lambda: log.is_fenced)
        assert "another entry 2" in str(moved.fenced[0])
        assert machine.state == [b"a", b"b"]
        assert other.propose(b"goes on") == [4]


def test_first_endpoint_may_be_dead(shared_etcd: EtcdServer, tmp_path: Path) -> None:
    with Members(tmp_path, "http://127.0.0.1:9", shared_etcd.url, cluster_id="two") as members:
        member, _ = lead(members, 1)
        assert member.propose(b"a") == [1]


def test_one_of_three_etcd_members_may_be_killed_or_hang(tmp_path: Path) -> None:
    with (
        etcd_cluster(tmp_path) as servers,
        Members(tmp_path, *[server.url for server in servers]) as members,
    ):
        first, machine = lead(members, 1)
        _, follower = follow(members, 2, 1, is_controller=False)
        expected = 0
        for fault in ("kill", "hang"):
            used = next(one for one in servers if one.url == first.log._client.endpoint)
            if fault == "kill":
                used.kill()
            else:
                used.pause()
            taken = [one for one in keep_proposing(members, first) if isinstance(one, int)]
            expected += len(taken)
            if fault == "kill":
                used.start()
            else:
                used.resume()
        members.wait(lambda: follower.index == machine.index)
        assert follower.state == machine.state
        assert len(set(machine.state)) == len(machine.state) >= expected


def test_member_of_etcd_without_a_majority_can_not_confirm_a_leader(tmp_path: Path) -> None:
    with etcd_cluster(tmp_path) as servers, Members(tmp_path, servers[0].url) as members:

        async def story() -> None:
            client = EtcdClient(members.config)
            store = Store(client, "/penstock", members.cluster_id)
            lease = await client.grant(60)
            won = await store.campaign(await store.view(), peer_id=1, nonce="n", lease_id=lease.id)
            assert won is not None
            assert await store.is_leader(won.leader)
            for server in servers[1:]:
                server.pause()
            with pytest.raises(EtcdUnavailable):
                await store.is_leader(won.leader)
            await client.close()

        members.run(story())


def keep_proposing(members: Members, member: Member) -> list[int | MetadataError]:
    """Propose until ten were taken, and again where one was refused for want of a leader."""
    outcomes: list[int | MetadataError] = []
    while sum(isinstance(one, int) for one in outcomes) < 10:
        members.wait(lambda: member.log.leadership.is_leader)
        outcomes += member.propose(secrets.token_bytes(8))
    return outcomes


def test_user_and_password_are_used_and_new_tokens_fetched(
    etcd: EtcdServer, tmp_path: Path
) -> None:
    password = tmp_path / "password"
    password.write_text("secret\n")
    with Members(tmp_path, etcd.url) as members:
        members.run(enable_authentication(members))
        members.config = replace(members.config, user="root", password_file=str(password))
        member, _ = lead(members, 1)
        assert member.propose(b"a") == [1]
        member.log._client._token = "run-out.1"
        assert member.propose(b"b") == [2]
        member.close()
        password.write_text("wrong")
        stranger = members.member(2)
        log = stranger.start(Machine())
        members.pass_time(0.3)
        assert log.applied_index == 0
        assert log.leadership.leader_id == NO_LEADER


async def enable_authentication(members: Members) -> None:
    client = EtcdClient(members.config)
    for path, request in (
        ("user/add", {"name": "root", "password": "secret"}),
        ("role/add", {"name": "root"}),
        ("user/grant", {"user": "root", "role": "root"}),
        ("enable", {}),
    ):
        await client._call(f"/v3/auth/{path}", dict[str, object](request), EmptyAnswer)
    await client.close()


def test_write_of_a_deposed_leader_changes_nothing(members: Members) -> None:
    async def story() -> None:
        client = EtcdClient(members.config)
        store = Store(client, "/penstock", members.cluster_id)
        old = await take_the_lead(store, 1)
        entries = [Entry(EntryId(1, bytes(16)), b"a")]
        assert await store.append(old.leader, 0, entries)
        await client.revoke(leases.pop())
        new = await take_the_lead(store, 2)
        late = [Entry(EntryId(1, b"\1" * 16), b"late")]
        assert not await store.append(old.leader, 1, late)
        assert not await store.trim(old.leader, 1, NO_ENTRY, snapshot_id=bytes(16), data=b"x")
        assert await store.append(new.leader, 1, [Entry(EntryId(2, b"\2" * 16), b"b")])
        assert [entry.payload for entry in await store.entries(1, 9)] == [b"a", b"b"]
        # Asking again for what is there already is an answer, not a second entry.
        assert await store.append(old.leader, 0, entries)
        assert (await store.view()).head == 2
        await client.close()

    leases: list[int] = []

    async def take_the_lead(store: Store, peer_id: int) -> Won:
        lease = await store.client.grant(5)
        leases.append(lease.id)
        view = await store.view()
        won = await store.campaign(view, peer_id=peer_id, nonce="n", lease_id=lease.id)
        assert won is not None
        assert await store.campaign(view, peer_id=9, nonce="m", lease_id=lease.id) is None
        return won

    members.run(story())
