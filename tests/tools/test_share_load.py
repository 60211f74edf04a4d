"""The rate that is read from the reports of Kafka's share consumer."""

import pytest

from benchmarks.peers.model import CanNotRun
from benchmarks.peers.share_load import rate

HEAD = "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, ..."
JOINED = "2026-11-28 02:34:03:955, 2026-11-28 02:34:10:311, 0.0010, 0.0002, 0.1573, 1, 6356"
FIRST = "2026-11-28 02:34:10:311, 2026-11-28 02:34:10:521, 4.7607, 22.6657, 23766.6667, 5000, 210"
LAST = "2026-11-28 02:34:10:521, 2026-11-28 02:34:10:721, 11.4460, 31.9869, 33540.7, 12000, 209"
WHOLE = "2026-11-28 02:34:03:875, 2026-11-28 02:34:14:715, 190.7349, 17.5955, 18450.1845, 20, 10840"
OF_ONE = " for share consumer 1"


def test_the_time_in_which_the_group_forms_does_not_count() -> None:
    lines = [HEAD, JOINED + OF_ONE, FIRST + OF_ONE, LAST + OF_ONE, WHOLE]
    assert rate(lines, 12_000) == pytest.approx(7_000 / 0.2)


def test_one_report_tells_no_rate() -> None:
    with pytest.raises(CanNotRun):
        rate([HEAD, JOINED + OF_ONE, FIRST + OF_ONE, WHOLE], 5_000)
