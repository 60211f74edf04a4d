"""A level that knows a key of topics stays while a topic overrides it."""

import pytest

from penstock.controller.commands.command import (
    ChangeFeatureLevel,
    DeleteTopics,
    NewTopic,
    TopicReference,
)
from penstock.controller.errors import FeatureLevelRefused
from penstock.controller.metadata.levels import METADATA
from tests.controller.cluster import Cluster


def lower(cluster: Cluster) -> int:
    checked = tuple((key, one.broker_epoch) for key, one in cluster.image.brokers.items())
    return cluster.submit(
        ChangeFeatureLevel(feature=METADATA, level=1, is_lowering=True, checked_brokers=checked)
    )


def test_overrides_that_an_earlier_release_does_not_know_are_taken_away_before_the_level() -> None:
    cluster = Cluster()
    (made,) = cluster.create(NewTopic(name="t", configs={"segment.ms": "1000"}))
    assert made.error is None
    with pytest.raises(FeatureLevelRefused, match="overrides of topics t:"):
        lower(cluster)
    cluster.submit(DeleteTopics(topics=(TopicReference(name="t"),)))
    assert lower(cluster) == 1
    (refused,) = cluster.create(NewTopic(name="t", configs={"segment.ms": "1000"}))
    assert "needs level 2" in str(refused.error)
