"""Small rules of the Raft driver against dumb twins: numbers, merged writes, groups."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.controller.replicated_log import MachineIndex
from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry, EntryKind
from penstock.raft.ids import RaftIndex, Term
from penstock.raft.ready import Ready, Snapshot
from penstock.runtime.raft.disk_queue import merge_entries
from penstock.runtime.raft.numbering import Numbering, wrap_state
from penstock.runtime.raft.proposals import PROPOSAL_OVERHEAD_BYTES, Proposals
from penstock.runtime.raft.transport import parse_address
from tests.runtime.crash_disk import StepLoop

kinds = st.lists(st.sampled_from(list(EntryKind)), max_size=40)


@given(kinds, kinds, st.data())
def test_normal_entries_are_counted_and_found_again(
    before: list[EntryKind], after: list[EntryKind], data: st.DataObject
) -> None:
    normal_before = before.count(EntryKind.NORMAL)
    snapshot = Snapshot(
        index=RaftIndex(len(before)), term=Term(1), configuration=Configuration(),
        data=wrap_state(MachineIndex(normal_before), b"state"),
    )  # fmt: skip
    numbering = Numbering(snapshot if before else Snapshot(configuration=Configuration()))
    twin: dict[int, int] = {}
    for index, kind in enumerate(after, len(before) + 1):
        number = numbering.take(Entry(index=RaftIndex(index), term=Term(1), kind=kind))
        if kind is EntryKind.NORMAL:
            twin[normal_before + len(twin) + 1] = index
            assert number == normal_before + len(twin)
        else:
            assert number is None
    assert {one: numbering.raft_index_of(MachineIndex(one)) for one in twin} == twin
    if twin:
        base = data.draw(st.sampled_from(list(twin)))
        numbering.rebase(RaftIndex(twin[base]), MachineIndex(base))
        assert not numbering.has_behind_snapshot(MachineIndex(base))
        later = {one: index for one, index in twin.items() if one > base}
        assert {one: numbering.raft_index_of(MachineIndex(one)) for one in later} == later


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(0, 6)), max_size=8))
def test_merged_writes_leave_what_one_after_another_would(spans: list[tuple[int, int]]) -> None:
    twin: dict[int, Entry] = {}
    group = []
    for term, (wanted, length) in enumerate(spans, 1):
        first = min(wanted, max(twin, default=wanted) + 1)
        entries = tuple(
            Entry(index=RaftIndex(first + one), term=Term(term)) for one in range(length)
        )
        group.append(Ready(sequence=term, entries=entries))
        if entries:
            twin = {index: entry for index, entry in twin.items() if index < first}
            twin.update((entry.index, entry) for entry in entries)
    assert merge_entries(group) == list(twin.values())


@given(st.lists(st.integers(0, 500), min_size=1, max_size=20), st.integers(1, 3000))
def test_group_of_proposals_fits_its_bound_and_is_never_empty(sizes: list[int], limit: int) -> None:
    proposals = Proposals(StepLoop())
    for size in sizes:
        proposals.add(b"x" * size, lambda _: None)
    count, total = proposals.waiting_group(limit)
    costs = [size + PROPOSAL_OVERHEAD_BYTES for size in sizes]
    assert count >= 1
    assert total == sum(costs[:count])
    assert count == 1 or total <= limit
    assert count == len(sizes) or total + costs[count] > limit
    assert len(proposals.take(count)) == count
    assert proposals.count == len(sizes) - count


def test_addresses_are_host_and_port() -> None:
    assert parse_address("host:9093") == ("host", 9093)
    assert parse_address("[::1]:9093") == ("::1", 9093)
    assert parse_address("host") == ("", 0)
