"""Sessions of brokers after anything, compared with their history read aloud."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.base.ids import BrokerId, SessionId
from penstock.controller.active.liveness import Liveness
from penstock.controller.active.own_pauses import OwnPauses

TIMEOUT_MS = 10
INTERVAL_MS = 2
BROKERS = (BrokerId(1), BrokerId(2))
BROKER = st.sampled_from(BROKERS)


@dataclass
class Told:
    """What is known of one broker."""

    session: int
    """0 for none yet."""
    is_open: bool = True
    silent_ms: int = 0
    """Without the pauses of this process."""


@dataclass
class History:
    """Goes by time that passes, not by times."""

    told: dict[BrokerId, Told] = field(default_factory=dict)
    since_tick_ms: int | None = None

    def passed(self, ms: int) -> None:
        for one in self.told.values():
            one.silent_ms += ms
        if self.since_tick_ms is not None:
            self.since_tick_ms += ms

    def paused_ms(self) -> int:
        """Of the time since the last tick, what is more than two intervals."""
        return max(0, (self.since_tick_ms or 0) - 2 * INTERVAL_MS)

    def ticked(self) -> None:
        for one in self.told.values():
            one.silent_ms = max(0, one.silent_ms - self.paused_ms())
        self.since_tick_ms = 0

    def is_live(self, broker: BrokerId) -> bool:
        one = self.told.get(broker)
        return one is not None and one.is_open and one.silent_ms - self.paused_ms() <= TIMEOUT_MS


class Sessions(RuleBasedStateMachine):
    """The sessions of two brokers, and their history beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses = OwnPauses(TIMEOUT_MS)
        self.liveness = Liveness(TIMEOUT_MS, self.pauses)
        self.history = History()
        self.now_ms = self.opened = 0

    def _open(self, broker: BrokerId) -> Told | None:
        one = self.history.told.get(broker)
        return one if one is not None and one.session and one.is_open else None

    def _newest(self, broker: BrokerId) -> SessionId:
        one = self.history.told.get(broker)
        return SessionId(one.session if one is not None and one.session else 99)

    @rule(broker=BROKER)
    def opens(self, broker: BrokerId) -> None:
        self.opened += 1
        self.liveness.opened(broker, SessionId(self.opened), self.now_ms)
        self.history.told[broker] = Told(self.opened)

    @rule(broker=BROKER)
    def closes(self, broker: BrokerId) -> None:
        one = self._open(broker)
        assert self.liveness.closed(broker, self._newest(broker)) is (one is not None)
        if one is not None:
            one.is_open = False

    @rule(broker=BROKER)
    def an_older_one_closes_and_is_heard(self, broker: BrokerId) -> None:
        older = SessionId(self._newest(broker) - 1 or 98)
        assert not self.liveness.closed(broker, older)
        assert self.liveness.heard(broker, older, "older", self.now_ms) is None
        assert self.liveness.incarnation(broker) != "older"

    @rule(broker=BROKER, run=st.sampled_from(["a", "b"]))
    def is_heard(self, broker: BrokerId, run: str) -> None:
        heard = self.liveness.heard(broker, self._newest(broker), run, self.now_ms)
        one = self._open(broker)
        assert (heard is None) is (one is None)
        if one is not None:
            one.silent_ms = 0
            assert self.liveness.incarnation(broker) == run

    @rule(broker=BROKER)
    def is_expected(self, broker: BrokerId) -> None:
        self.liveness.expect(broker, self.now_ms)
        self.history.told.setdefault(broker, Told(0))

    @rule(broker=BROKER)
    def refuses(self, broker: BrokerId) -> None:
        self.liveness.refused(broker)
        one = self.history.told.get(broker)
        if one is not None and not one.session:
            one.is_open = False

    @rule(broker=BROKER)
    def is_removed(self, broker: BrokerId) -> None:
        self.liveness.forget(broker)
        if self._open(broker) is None:
            self.history.told.pop(broker, None)

    @rule()
    def ticks(self) -> None:
        self.liveness.excuse(self.pauses.tick(self.now_ms, INTERVAL_MS), self.now_ms)
        self.history.ticked()

    @rule(ms=st.integers(1, 14))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        self.history.passed(ms)

    @invariant()
    def each_is_alive_as_its_history_says(self) -> None:
        for broker in BROKERS:
            told, is_live = self.history.told.get(broker), self.history.is_live(broker)
            has_session = told is not None and told.session > 0
            is_awaited = told is not None and not told.session and told.is_open
            assert self.liveness.is_live(broker, self.now_ms) is is_live
            assert self.liveness.is_connected(broker, self.now_ms) is (has_session and is_live)
            assert self.liveness.is_awaited(broker) is is_awaited
            silent_ms = told.silent_ms if told is not None and has_session else -1
            assert self.liveness.heard_ms_ago(broker, self.now_ms) == silent_ms


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=60, stateful_step_count=30)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 14)), max_size=30))
def test_this_process_was_asleep_for_a_timeout_from_the_end_of_a_long_pause(
    steps: list[tuple[bool, int]],
) -> None:
    pauses = OwnPauses(TIMEOUT_MS)
    now_ms = 0
    ticks: list[int] = []
    ends: list[int] = []
    for is_tick, ms in steps:
        now_ms += ms
        if is_tick:
            if ticks and now_ms - ticks[-1] > TIMEOUT_MS // 2:
                ends.append(now_ms)
            paused_ms = max(0, now_ms - ticks[-1] - 2 * INTERVAL_MS) if ticks else 0
            assert pauses.tick(now_ms, INTERVAL_MS) == paused_ms
            ticks.append(now_ms)
        is_pause = bool(ticks) and now_ms - ticks[-1] > TIMEOUT_MS // 2
        is_after = any(now_ms - end < TIMEOUT_MS for end in ends)
        assert pauses.was_asleep(now_ms) is (is_pause or is_after)
