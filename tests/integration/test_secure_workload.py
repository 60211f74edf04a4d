"""A workload whose clients of every kind come in over TLS and by SCRAM, through a kill."""

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from harness.cluster import ClusterProcess
from harness.load import Load
from harness.login import LISTENER, SecureListener
from harness.node import LOOPBACK
from harness.waiting import wait_until
from harness.workload import Workload
from reliability.clients.group_reader import GroupReader
from reliability.clients.stock_writers import WRITERS
from reliability.clients.zombie_writer import ZombieWriter
from tests.integration.layouts import FAST, WAIT_SECONDS

with warnings.catch_warnings():  # it reads its own files in a deprecated way when imported
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

assert kafka.KafkaProducer is not None, "imported here, so that its writer may be"
pytestmark = [
    pytest.mark.process,
    # kafka-python leaves sockets to the collector whose connection was refused.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_clients_of_all_kinds_write_and_read_over_tls_through_a_kill(tmp_path: Path) -> None:
    listener = SecureListener(tmp_path, [LOOPBACK])
    with ClusterProcess(
        tmp_path / "cluster",
        settings=FAST,
        listener=LISTENER,
        listener_security=listener.settings(),
    ) as cluster:
        load = Load(
            topic="history",
            partitions=2,
            producers=len(WRITERS),
            records_per_second=100,
            login=listener.login,
        )
        where = cluster.listener_bootstrap, load.topic, load.partitions
        zombie = ZombieWriter(*where, load.login)
        group = GroupReader(*where, login=load.login)
        workload = Workload(cluster.listener_bootstrap, load, WRITERS, (zombie, group))
        workload.start()
        assert workload.wait_for(200)
        assert wait_until(lambda: zombie.refused > 0, WAIT_SECONDS)
        victim = cluster.wait_for_leader(load.topic, 0)
        cluster.nodes[victim].kill()
        cluster.nodes[victim].launch()
        assert workload.wait_for(workload.acked + 300)
        report = workload.finish()
        assert report.is_clean(), report.findings[:3]
        assert workload.refusals == []
        acked = {writer.kind: writer.tally.acked for writer in workload.writers}
        assert all(acked.values()), (acked, workload.fatal_errors)
        wrong = replace(listener.login, password="another").librdkafka()
        where_to = {"bootstrap.servers": cluster.listener_bootstrap, "log_level": 0}
        settings: Any = {**where_to, **wrong}
        asks = AdminClient(settings)
        with pytest.raises(KafkaException):
            asks.list_topics(timeout=2)
