"""The payload of configuration entries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import PeerId
from penstock.raft.configuration import Configuration
from penstock.raft.errors import InvalidMessage
from penstock.raft.ids import DirectoryId
from tests.raft.group import voters

peer_ids = st.integers(0, 2**31 - 1).map(PeerId)
addresses = st.dictionaries(peer_ids, st.text(max_size=30), max_size=6)


@given(addresses)
def test_what_is_written_is_read(known: dict[PeerId, str]) -> None:
    configuration = Configuration.of(known)
    assert Configuration.decode(configuration.encode()) == configuration
    assert configuration.addresses == known


@given(st.binary(max_size=60))
def test_other_bytes_are_refused_or_mean_what_would_be_written(payload: bytes) -> None:
    try:
        configuration = Configuration.decode(payload)
    except InvalidMessage:
        return
    assert configuration.encode() == payload


@given(addresses, st.data())
def test_every_cut_is_noticed(known: dict[PeerId, str], data: st.DataObject) -> None:
    payload = Configuration.of(known).encode()
    length = data.draw(st.integers(0, len(payload) - 1))
    with pytest.raises(InvalidMessage):
        Configuration.decode(payload[:length])


def test_one_voter_comes_or_goes_at_a_time() -> None:
    assert voters(1, 3).with_voter(PeerId(2), "host2:9093") == voters(1, 2, 3)
    assert voters(1, 2, 3).without_voter(PeerId(2)) == voters(1, 3)
    assert not voters(1, 3).has(PeerId(2))


@given(
    known=st.dictionaries(peer_ids, st.text(max_size=10), max_size=5),
    directory_ids=st.lists(st.text(max_size=10), min_size=5, max_size=5),
    vacant_count=st.integers(0, 2),
)
def test_configuration_with_directories_and_vacant_seats_survives(
    known: dict[PeerId, str], directory_ids: list[DirectoryId], vacant_count: int
) -> None:
    vacant = dict(list(known.items())[:vacant_count])
    voting = {peer_id: known[peer_id] for peer_id in known if peer_id not in vacant}
    directories = dict(zip(voting, directory_ids, strict=False))
    configuration = Configuration.of(voting, directories, vacant)
    payload = configuration.encode()
    assert Configuration.decode(payload) == configuration
    for length in range(len(payload)):
        with pytest.raises(InvalidMessage):
            Configuration.decode(payload[:length])


def test_configuration_without_directories_has_the_bytes_of_earlier_releases() -> None:
    assert Configuration.of({PeerId(1): "a", PeerId(2): "b"}).encode() == bytes.fromhex(
        "0002 00000001 0001 61 00000002 0001 62".replace(" ", "")
    )


def test_a_seat_that_votes_and_is_vacant_is_refused() -> None:
    whole = Configuration.of(
        {PeerId(1): "a"}, {PeerId(1): DirectoryId("d")}, {PeerId(2): "b"}
    ).encode()
    with pytest.raises(InvalidMessage):
        Configuration.decode(whole[:-4] + whole[-4:].replace(b"\x02", b"\x01"))
