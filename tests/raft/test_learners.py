"""The learners that a voter has heard of lately."""

from penstock.base.ids import PeerId
from penstock.raft.ids import DirectoryId
from penstock.raft.learners import LearnerRegistry
from tests.raft.group import CONFIG


def test_a_learner_has_the_directory_of_its_last_sign_of_life() -> None:
    registry = LearnerRegistry(CONFIG)
    registry.note(PeerId(4), 0, DirectoryId("before"))
    registry.note(PeerId(4), 1, DirectoryId("after"))
    assert registry.directory_of(PeerId(4)) == "after"


def test_a_learner_that_became_a_voter_with_its_second_directory_is_none_any_more() -> None:
    registry = LearnerRegistry(CONFIG)
    registry.note(PeerId(4), 0, DirectoryId("before"))
    registry.note(PeerId(4), 1, DirectoryId("after"))
    registry.forget(PeerId(4), DirectoryId("before"))
    assert registry.has(PeerId(4))
    registry.forget(PeerId(4), DirectoryId("after"))
    assert not registry.has(PeerId(4))


def test_a_learner_is_remembered_for_as_long_as_it_may_be_silent_and_no_longer() -> None:
    registry = LearnerRegistry(CONFIG)
    registry.note(PeerId(4), 7, DirectoryId("its own"))
    registry.forget_silent(7 + CONFIG.learner_timeout_ticks)
    assert registry.has(PeerId(4))
    registry.forget_silent(8 + CONFIG.learner_timeout_ticks)
    assert not registry.has(PeerId(4))
