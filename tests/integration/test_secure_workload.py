"""A workload whose clients come in over TLS and by SCRAM: nobody of it uses the plain listener."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from harness.cluster import ClusterProcess, get_page
from harness.load import Load
from harness.login import LISTENER, SecureListener
from harness.node import LOOPBACK
from harness.waiting import wait_until
from harness.workload import Workload, Writer
from reliability.clients.group_reader import GroupReader
from reliability.clients.stock_writers import AiokafkaWriter
from reliability.clients.zombie_writer import ZombieWriter
from tests.integration.layouts import FAST, WAIT_SECONDS

pytestmark = pytest.mark.process
KINDS = (Writer, AiokafkaWriter)
"""kafka-python's writer is in the runs of tests/integration/test_cluster_chaos.py."""


def connections(cluster: ClusterProcess, listener: str) -> float:
    """Return how many clients are connected to a listener of all nodes."""
    line = f'penstock_listener_connections{{listener="{listener}"}} '
    pages = [get_page(node, "/metrics") or b"" for node in cluster.nodes.values()]
    lines = [one for page in pages for one in page.decode().splitlines() if one.startswith(line)]
    assert len(lines) == len(pages)
    return sum(float(one.rpartition(" ")[2]) for one in lines)


def test_clients_write_and_read_over_tls(tmp_path: Path) -> None:
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
            producers=len(KINDS),
            records_per_second=100,
            login=listener.login,
        )
        where = cluster.listener_bootstrap, load.topic, load.partitions
        zombie = ZombieWriter(*where, load.login)
        group = GroupReader(*where, login=load.login)
        workload = Workload(cluster.listener_bootstrap, load, KINDS, (zombie, group))
        workload.start()
        assert workload.wait_for(200)
        assert wait_until(lambda: zombie.refused > 0, WAIT_SECONDS)
        assert connections(cluster, LISTENER) >= len(KINDS) + 3
        assert connections(cluster, "kafka") == 0
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
