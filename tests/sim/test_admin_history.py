"""What error codes mean for the history of topics."""

import itertools

import pytest

from penstock.protocol.error_codes import ErrorCode
from simulator.history.administration import AdminHistory
from simulator.history.controllers import (
    AlterConfig,
    ControllerModel,
    CreateTopic,
    DeleteTopic,
    ReadConfig,
    ReadTopic,
    TopicSeen,
)
from simulator.history.linearizability import Recorder, Verdict, check_linearizable


@pytest.fixture
def recorder() -> Recorder:
    clock = itertools.count()
    return Recorder(lambda: next(clock))


def verdict(recorder: Recorder) -> Verdict:
    return check_linearizable(recorder.history(), ControllerModel()).verdict


def test_answers_of_changes_and_reads_are_judged(recorder: Recorder) -> None:
    admin = AdminHistory(recorder, "a")
    admin.changed(admin.began("t", CreateTopic(3)), ErrorCode.NONE)
    admin.changed(admin.began("t", CreateTopic(3)), ErrorCode.TOPIC_ALREADY_EXISTS)
    admin.changed(admin.began("t", AlterConfig("retention.ms", "7")), ErrorCode.NONE)
    admin.read(admin.began("t", ReadConfig("retention.ms")), ErrorCode.NONE, "7")
    admin.read(admin.began("t", ReadTopic()), ErrorCode.NONE, TopicSeen("id", 3))
    admin.changed(admin.began("t", DeleteTopic()), ErrorCode.NONE)
    assert verdict(recorder) is Verdict.LINEARIZABLE
    admin.read(admin.began("t", ReadTopic()), ErrorCode.NONE, TopicSeen("id", 3))
    assert verdict(recorder) is Verdict.VIOLATION


def test_a_change_that_timed_out_may_have_happened(recorder: Recorder) -> None:
    admin = AdminHistory(recorder, "a")
    admin.changed(admin.began("t", CreateTopic(1)), ErrorCode.REQUEST_TIMED_OUT)
    admin.changed(admin.began("t", DeleteTopic()), ErrorCode.NONE)
    assert verdict(recorder) is Verdict.LINEARIZABLE


def test_a_change_that_was_refused_did_not_happen(recorder: Recorder) -> None:
    admin = AdminHistory(recorder, "a")
    admin.changed(admin.began("t", CreateTopic(0)), ErrorCode.INVALID_PARTITIONS)
    admin.changed(admin.began("t", DeleteTopic()), ErrorCode.NONE)
    assert verdict(recorder) is Verdict.VIOLATION


def test_a_read_without_an_answer_says_nothing(recorder: Recorder) -> None:
    admin = AdminHistory(recorder, "a")
    admin.read(admin.began("t", ReadTopic()), ErrorCode.LEADER_NOT_AVAILABLE)
    assert recorder.history() == []


def test_a_read_may_be_as_old_as_a_copy_may_be(recorder: Recorder) -> None:
    for stale_ns_max, wanted in ((0, Verdict.VIOLATION), (3, Verdict.LINEARIZABLE)):
        topic = f"t{stale_ns_max}"
        admin = AdminHistory(recorder, "a", stale_ns_max=stale_ns_max)
        admin.changed(admin.began(topic, CreateTopic(1)), ErrorCode.NONE)
        admin.read(admin.began(topic, ReadTopic()), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        mine = [one for one in recorder.history() if one.key == ("topic", topic)]
        assert check_linearizable(mine, ControllerModel()).verdict is wanted
