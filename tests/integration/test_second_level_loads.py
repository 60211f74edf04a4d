"""The loads of the rows of cleaning and of object stores, put on real nodes of ours.

They are few MB: what counts is that a row measures what it says. Beside Kafka they run by
`python -m benchmarks.peers --smoke --rows 'clean-*,tier-*'`.
"""

from collections.abc import Iterator

import pytest

from benchmarks import amplification, beside_cleaning
from benchmarks.parts import native
from benchmarks.parts.keys import key_of
from benchmarks.parts.native import LoadFailed
from benchmarks.parts.second_level import NotCleaned, metrics_of
from benchmarks.peers import second_level_probes
from benchmarks.peers.model import SMOKE, Spec
from benchmarks.peers.second_level_probes import catch_up, check_clean, clean, read_keys
from benchmarks.peers.servers import PenstockServer, Server, open_server

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(native.why_not() is not None, reason="no C client"),
]
MIB = 1 << 20


@pytest.fixture
def cleaner() -> Iterator[Server]:
    with open_server(Spec(product="penstock", has_cleaner=True)) as server:
        yield server


def test_keys_that_the_c_client_writes_are_those_that_are_expected(cleaner: Server) -> None:
    load, bootstrap = cleaner.load, cleaner.bootstrap
    with load.topic(bootstrap) as topic:
        records = load.produce_keyed(bootstrap, topic, (100, 16_384, "none", 100_000, 77))
        assert records == 1_001
        read = list(read_keys(bootstrap, topic))
        assert read == [(offset, key_of(offset, 77)) for offset in range(records)]
        with pytest.raises(LoadFailed, match="old records are left"):
            check_clean(read, records, 77, records)


def test_a_row_of_cleaning_counts_a_log_that_was_cleaned(cleaner: Server) -> None:
    answer = clean(codec="zstd")(cleaner, SMOKE)
    assert answer["MB/s"] > 0
    assert answer["cpu"] > 0
    assert len(cleaner.pids()) == 2, "the housekeeper's time counts"


def test_a_row_of_cleaning_fails_where_nothing_is_cleaned(
    cleaner: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_level_probes, "COMPACTED", {"cleanup.policy": "delete"})
    monkeypatch.setattr(second_level_probes, "CLEAN_SECONDS", 3.0)
    with pytest.raises(LoadFailed, match="not clean after 3 s"):
        clean(codec="none")(cleaner, SMOKE)


def test_a_row_of_the_tier_reads_from_the_store_what_no_disk_has() -> None:
    with open_server(Spec(product="penstock", has_store=True)) as server:
        answer = catch_up(partitions=2)(server, SMOKE)
        assert answer["MB/s"] > 0
        assert isinstance(server, PenstockServer)
        told = metrics_of(server.nodes[0].metrics_port)
        # Twice: what is not counted, and what is.
        assert told["penstock_tier_read_bytes_total"] >= 2 * SMOKE.total_bytes


@pytest.fixture
def few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amplification, "SEGMENT_BYTES", MIB)
    monkeypatch.setattr(amplification, "PARTS", 2)


@pytest.mark.usefixtures("few_bytes")
@pytest.mark.parametrize("case", amplification.cases(4 * MIB), ids=lambda case: case.name)
def test_what_a_byte_costs_is_told_with_what_was_moved_and_cleaned(
    case: amplification.Case,
) -> None:
    row = amplification.measured(case, 4 * MIB)
    assert row["produced MB"] == 9
    assert bool(row["moved MB"]) == case.is_moved
    assert bool(row["passes"]) == (case.name == "compacted")


def test_latencies_beside_cleaning_are_of_a_time_in_which_the_housekeeper_is_at_work() -> None:
    (case, *_) = beside_cleaning.CASES
    row = beside_cleaning.measured(case._replace(dirty_bytes=192 * MIB), rounds=1, seconds=1)
    assert row["housekeeper MB/s"]


def test_a_round_whose_cleaning_is_over_too_soon_does_not_count() -> None:
    (_, case, *_) = beside_cleaning.CASES
    with pytest.raises(NotCleaned, match="cleaned before the time was over"):
        beside_cleaning.measured(case._replace(dirty_bytes=24 * MIB), rounds=1, seconds=5)
