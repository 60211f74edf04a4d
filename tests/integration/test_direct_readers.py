"""Readers that stay with one broker, which may lead nothing for a while."""

from harness.direct_readers import DirectReader, _Place
from penstock.client.fetch import FetchedPartition
from penstock.protocol.error_codes import ErrorCode
from simulator.history import Anomaly, History, Outcome, Poll, Rules, Send, judge

S = 1_000_000_000


def test_a_reader_waits_for_nothing_while_its_broker_says_that_another_one_leads() -> None:
    reader = DirectReader("b1:9092", "t", 1)
    reader.polls.append(Poll(reader._name, 0, [(0, "a")], 0, 1, is_fresh=True))
    elsewhere = FetchedPartition("t", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1, memoryview(b""))
    for second in range(1, 100):
        reader._take(elsewhere, _Place(1, is_fresh=False), (second * S, second * S + 1))
    reader.polls.append(Poll(reader._name, 0, [(1, "b")], 100 * S, 100 * S + 1))
    sends = [
        Send("p", 0, "a", 0, 1, Outcome.ACKED, 0),
        Send("p", 0, "b", 2, 3, Outcome.ACKED, 1),
    ]
    polls = reader.polls
    rules = Rules(lag_ns_max=5 * S)
    assert judge(History(sends=sends, polls=polls), rules).findings == ()
    asked_in_vain = [poll._replace(is_elsewhere=False) for poll in polls]
    told = judge(History(sends=sends, polls=asked_in_vain), rules).findings
    assert {one.anomaly for one in told} == {Anomaly.REALTIME_LAG}
