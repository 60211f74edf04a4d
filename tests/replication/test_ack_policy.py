"""Whoever acknowledged and whoever is asked in an election share a member, for every count."""

import pytest

from penstock.base.ack_policy import AckPolicy, PolicyKind

COUNTS = range(1, 10)


@pytest.mark.parametrize("replicas", COUNTS)
def test_any_two_quorums_share_a_member(replicas):
    policy = AckPolicy(kind=PolicyKind.QUORUM)
    copies = policy.copies_needed(replicas, replicas)
    assert 2 * copies > replicas
    assert 2 * (copies - 1) <= replicas, "and no more than that is asked for"


@pytest.mark.parametrize("replicas", COUNTS)
def test_k_of_n_waits_for_k(replicas):
    for required in range(1, 12):
        policy = AckPolicy(kind=PolicyKind.K_OF_N, required=required)
        assert policy.copies_needed(replicas, 1) == min(required, replicas)


@pytest.mark.parametrize("kind", [PolicyKind.K_OF_N, PolicyKind.QUORUM, PolicyKind.ADAPTIVE])
def test_an_election_meets_every_acknowledged_record(kind):
    for replicas in COUNTS:
        for in_step in range(1, replicas + 1):
            for required in range(1, replicas + 1):
                policy = AckPolicy(kind=kind, required=required)
                candidates = replicas if policy.counts_replicas else in_step
                copies = policy.copies_needed(replicas, in_step)
                assert copies + policy.answers_needed(replicas, in_step) > candidates


def test_all_waits_for_everybody_in_step_and_async_for_nobody_else():
    for in_step in COUNTS:
        assert AckPolicy().copies_needed(9, in_step) == in_step
        assert AckPolicy(kind=PolicyKind.ASYNC).copies_needed(9, in_step) == 1
