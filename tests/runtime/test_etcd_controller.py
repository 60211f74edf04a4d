"""Controllers over etcd: the state machine that runs on Raft elsewhere runs on it unchanged."""

from pathlib import Path

import pytest

from penstock.base.ids import TopicId
from penstock.controller.commands.command import (
    CreateCluster,
    CreateReplicaSet,
    CreateTopics,
    NewTopic,
    RegisterBroker,
)
from penstock.controller.config import ControllerConfig
from penstock.controller.controller import Controller
from penstock.controller.errors import NotActiveController
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.snapshot import snapshot_records
from penstock.runtime.controller_driver import ControllerDriver
from tests.integration.etcd_members import Members
from tests.integration.etcd_server import EtcdServer, why_no_etcd

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(60),
    pytest.mark.skipif(why_no_etcd() is not None, reason=str(why_no_etcd())),
]


class Process:
    """A controller with its image over a log in etcd."""

    def __init__(self, members: Members, peer_id: int) -> None:
        self._ids = peer_id * 1_000
        self.member = members.member(peer_id)
        self.image = ClusterImage()
        controller = Controller(
            config=ControllerConfig(), image=self.image, new_topic_id=self._new_id
        )
        log = self.member.open()
        self.driver = ControllerDriver(controller, log)
        log.on_leadership = self.driver.on_leadership
        self.driver.start()

    @property
    def is_active(self) -> bool:
        return self.member.log.leadership.is_leader

    def _new_id(self) -> TopicId:
        self._ids += 1
        return TopicId(self._ids.to_bytes(16))


def test_topics_made_under_one_controller_are_there_under_the_next(tmp_path: Path) -> None:
    with EtcdServer(tmp_path / "etcd") as etcd, Members(tmp_path, etcd.url) as members:
        first = Process(members, 1)
        members.wait(lambda: first.is_active)
        second = Process(members, 2)
        submit = first.driver.submit
        members.run(submit(CreateCluster(cluster_id="the-cluster")))
        members.run(submit(RegisterBroker(broker_id=1, host="localhost", port=9092)))
        members.run(submit(CreateReplicaSet(replica_set_id=0, replicas=(1,))))
        members.run(submit(CreateTopics(topics=(NewTopic(name="orders"),))))
        with pytest.raises(NotActiveController):
            members.run(second.driver.submit(CreateTopics(topics=(NewTopic(name="late"),))))
        first.member.crash()
        members.wait(lambda: second.is_active)
        members.run(second.driver.submit(CreateTopics(topics=(NewTopic(name="later"),))))
        assert sorted(second.image.topics_by_name) == ["later", "orders"]
        third = Process(members, 3)
        members.wait(lambda: third.member.log.applied_index == second.member.log.applied_index)
        assert list(snapshot_records(third.image)) == list(snapshot_records(second.image))
