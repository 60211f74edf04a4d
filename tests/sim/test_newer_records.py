"""What is said of the records of a later version at the end of a run."""

from typing import cast

import pytest

from penstock.base.errors import PlatformError
from penstock.coordinator.records import UnreadRecord
from penstock.record.build import Record
from simulator.faults.newer_records import MARK, NewerRecords, _Found, _Written
from simulator.run.cluster import SimCluster

RECORD = Record(b"a key", MARK, (), 1)
WRITTEN = _Written(partition=0, base_offset=53, records=(RECORD,), is_transaction=False)


def said(*, holds: bool, ends: bool) -> list[str]:
    """Return what is said where a load has found that record or not, and has come to its end."""
    newer, found = NewerRecords(cast("SimCluster", None)), _Found()
    newer._written.append(WRITTEN)
    newer._found[0] = found
    if holds:
        found.record(UnreadRecord(*RECORD))
    if ends:
        found.end(None)
    return list(newer.missing())


def test_a_record_that_a_whole_load_does_not_find_is_gone() -> None:
    assert said(holds=True, ends=True) == []
    (text,) = said(holds=False, ends=True)
    assert "what a later version wrote at 53 is not there any more" in text


@pytest.mark.parametrize("holds", [True, False])
def test_a_load_that_has_not_come_to_its_end_says_that_nobody_can_tell(*, holds: bool) -> None:
    """Seed 5255: no time was left for the load, and the record was said to be gone."""
    (text,) = said(holds=holds, ends=False)
    assert "can not be loaded, and a later version wrote at 53" in text


def test_a_load_that_fails_says_so_too() -> None:
    newer, found = NewerRecords(cast("SimCluster", None)), _Found()
    newer._written.append(WRITTEN)
    newer._found[0] = found
    found.end(PlatformError())
    (text,) = newer.missing()
    assert "can not be loaded" in text
