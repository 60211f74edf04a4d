"""Walks through commands on a copy of the metadata: nothing is wrong with ours, and what is shows.

Each handler is made to forget one thing that it must keep out, or keep.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from harness.ids import as_brokers
from penstock.base.ack_policy import AckPolicy, PolicyKind
from penstock.base.ids import BrokerId, ReplicaSetId, TopicId
from penstock.controller.commands import brokers as brokers_module
from penstock.controller.commands import command as c
from penstock.controller.commands import masterships, overlap, replica_sets
from penstock.controller.controller import Controller
from penstock.controller.metadata import snapshot
from penstock.controller.metadata.image import NO_FLOOR, ClusterImage
from simulator.trials.metadata import LIMITS, STEPS, MetadataTrials, Walk

WALKS = 200


def cluster(policy: AckPolicy | None = None, size: int = 3) -> ClusterImage:
    """A few brokers, and a set of three that each of them leads."""
    image = ClusterImage()
    controller = Controller(config=LIMITS, image=image, new_topic_id=lambda: TopicId(b"x" * 16))

    def ask(command: c.Command[Any]) -> None:
        controller.replay(controller.handle(command).records)

    ask(c.CreateCluster(cluster_id="a cluster"))
    for one in range(1, size + 1):
        ask(
            c.RegisterBroker(
                broker_id=BrokerId(one),
                host="host",
                port=1,
                identity=f"disk {one}",
                incarnation=f"{one}",
            )
        )
    for at in range(size):
        replicas = tuple((at + behind) % size + 1 for behind in range(3))
        ask(
            c.CreateReplicaSet(
                replica_set_id=ReplicaSetId(at + 1), replicas=as_brokers(*replicas), policy=policy
            )
        )
        for replica in replicas:
            ask(
                c.RegisterReplica(
                    replica_set_id=ReplicaSetId(at + 1),
                    broker_id=BrokerId(replica),
                    log_id=f"log {replica} {at}",
                )
            )
        if at:  # the first set is as new as it can be
            ask(
                c.BeginMastership(replica_set_id=ReplicaSetId(at + 1), master=BrokerId(replicas[0]))
            )
    return image


def walk(count: int = WALKS) -> list[str]:
    """Return what was wrong in the first walk that something was wrong with."""
    draw = Random(1)
    for _ in range(count):
        kind = draw.choice(list(PolicyKind))
        image = cluster(AckPolicy(kind=kind, required=2), draw.choice((3, 4)))
        if texts := list(Walk(image, [], draw).run(STEPS)):
            return texts
    return []


def test_nothing_is_wrong_with_what_the_controllers_do() -> None:
    assert walk() == []


def _does_nothing(*_: object) -> None:
    pass


@pytest.mark.parametrize(
    ("owner", "name", "wrong", "told"),
    [
        (masterships, "_check_added", _does_nothing, "taken, though"),
        (masterships, "_check_epochs", _does_nothing, "taken, though"),
        (masterships, "_check_choice", _does_nothing, "taken, though"),
        (masterships, "raised_floor", lambda _: NO_FLOOR, "elections ask"),
        (overlap, "_held_after", lambda _, after, __: after.copies_needed, "elections ask"),
        (replica_sets, "_log_lost", lambda *_: [], "and not"),
        (brokers_module, "_led_by", lambda *_: [], "and not"),
        (
            snapshot,
            "_mastership",
            lambda one, real=snapshot._mastership: replace(real(one), unclean_epoch=-1),
            "a snapshot makes of",
        ),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_handler_that_forgets_something_is_told_of(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, wrong: Callable[..., Any], told: str
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    texts = walk()
    assert texts
    assert told in texts[0]


def test_a_run_tries_the_first_entries_and_tells_what_it_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[str] = []
    trials, image = MetadataTrials(found.append), cluster()
    for _ in range(40):
        trials.applied("b1", image)
    assert trials.walks >= 10
    assert found == []
    monkeypatch.setattr(masterships, "_check_epochs", _does_nothing)
    for _ in range(400):
        trials.applied("b1", image)
    assert found[0].startswith("b1, had the controllers been asked so: taken, though")
