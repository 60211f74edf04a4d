"""Bugs of recalls, of times that remoting producers ask for, and of message types."""

from .mutant import Kind, plant

AREA = "Recalls"
RECALLS = ("tests/remoting/test_recalls.py",)
TIMERS = ("tests/remoting/test_timers.py",)
TYPES = ("tests/grpc/test_message_types.py",)

MUTANTS = (
    plant(
        "recall-a-decision-is-kept-in-memory-alone",
        AREA,
        "a new master whose clock is behind recalls what was delivered",
        (
            "remoting/recall/led.py",
            "        self._append([Through(through_ms)])\n",
            "        self.state.apply(Through(through_ms), 0)\n",
        ),
        kind=Kind.ORDER,
        near=RECALLS,
    ),
    plant(
        "recall-is-taken-for-what-is-decided",
        AREA,
        "a message is delivered and recalled where the clock goes back between the two",
        (
            "remoting/recall/led.py",
            "        if recalled.until_ms <= max(now_ms, self.state.through_ms):\n",
            "        if recalled.until_ms <= now_ms:\n",
        ),
        kind=Kind.GUARD,
        near=RECALLS,
    ),
    plant(
        "recall-is-answered-before-it-is-confirmed",
        AREA,
        "a recall that was answered is lost with its master",
        (
            "remoting/recall/led.py",
            "        pending = Pending(self.hosted, [Waiting(1, done)], 0, deadline_ms)\n",
            "        done(0)\n        pending = Pending(self.hosted, [], 0, deadline_ms)\n",
        ),
        kind=Kind.ORDER,
        near=RECALLS,
    ),
    plant(
        "recall-deliveries-do-not-wait-for-the-log",
        AREA,
        "a new master delivers what is recalled, before it has read of that",
        (
            "remoting/recall/recalls.py",
            "        return place is None or self._of(place).is_ready\n",
            "        return place is None or self._of(place) is not None\n",
        ),
        kind=Kind.GUARD,
        near=RECALLS,
    ),
    plant(
        "recall-a-level-that-is-paused-counts-as-past",
        AREA,
        "a recall is forgotten while its message can not be delivered, and comes after all",
        (
            "remoting/later/delivery.py",
            "not is_known or head.is_paused or hosted in self._open:\n",
            "not is_known or hosted in self._open:\n",
        ),
        kind=Kind.GUARD,
        near=RECALLS,
    ),
    plant(
        "recall-the-time-that-is-decided-is-left-behind",
        AREA,
        "the log start passes the record of what is decided: the next master knows nothing of it",
        (
            "remoting/recall/state.py",
            "            firsts.append(self._through_at)\n",
            "            assert firsts is not None\n",
        ),
        kind=Kind.GUARD,
        near=RECALLS,
    ),
    plant(
        "recall-of-any-topic",
        AREA,
        "who may write to one topic recalls messages of another",
        (
            "remoting/handlers/recall.py",
            "    if told.topic != name or stored_name(name) != name:\n",
            "    if stored_name(name) != name:\n",
        ),
        kind=Kind.GUARD,
        near=RECALLS,
    ),
    plant(
        "recall-is-kept-for-ever",
        AREA,
        "recalls of messages that are long over fill the memory of a set",
        (
            "remoting/recall/state.py",
            "self._by_time[0].until_ms < before_ms:\n",
            "self._by_time[0].until_ms < 0:\n",
        ),
        kind=Kind.RANGE,
        near=RECALLS,
    ),
    plant(
        "recall-an-older-one-loses-its-place",
        AREA,
        "a recall that is repeated is moved to the end, and the log start passes its first record",
        (
            "remoting/recall/state.py",
            "            if self._at.pop(event, None) is None:\n",
            "            if event not in self._at:\n",
        ),
        kind=Kind.GUARD,
        near=RECALLS,
    ),
    plant(
        "timers-a-time-counts-before-a-level",
        AREA,
        "what a consumer sends again for a later attempt is there at once",
        (
            "remoting/handlers/send.py",
            "    level = level_of(properties)\n    if level:\n",
            "    level = level_of(properties)\n    if level and DELIVER_MS not in properties:\n",
        ),
        (
            "remoting/handlers/send.py",
            "from penstock.remoting.system_names import UNIQ_KEY\n",
            "from penstock.remoting.system_names import DELIVER_MS, UNIQ_KEY\n",
        ),
        kind=Kind.ORDER,
        near=TIMERS,
    ),
    plant(
        "timers-seconds-are-milliseconds",
        AREA,
        "a message that is to come in a minute comes at once",
        (
            "remoting/later/timers.py",
            "        told *= 1_000\n",
            "        told *= 1\n",
        ),
        kind=Kind.RANGE,
        near=TIMERS,
    ),
    plant(
        "types-every-topic-takes-normal-messages",
        AREA,
        "messages without an order are in a topic that is to have none of them",
        (
            "grpc/methods/send_message.py",
            "    if expected not in {MIXED, kind.name}:\n",
            "    if kind is not MessageType.NORMAL and expected not in {MIXED, kind.name}:\n",
        ),
        kind=Kind.GUARD,
        near=TYPES,
    ),
)
