"""History from the store where brokers ask who a client is: they are asked for the plan alone."""

from pathlib import Path

import pytest

from harness.login import LISTENER, MECHANISM, PASSWORD, PROTOCOL, USER, SecureListener
from harness.ports import free_port
from tests.integration.test_tier import Directory
from tests.spark.history import filled, partitions, reader, rows, tiered, tiered_node

pytestmark = [pytest.mark.spark, pytest.mark.process]


def test_history_is_planned_over_tls_and_read_while_no_broker_answers(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    secure = SecureListener(tmp_path, ["127.0.0.1"])
    sections: dict[str, dict[str, object]] = {
        "node": {"listeners": [f"{LISTENER}://{address}"]},
        "security": secure.settings(),
    }
    (tmp_path / "password").write_text(PASSWORD)
    login = {
        "bootstrap": address,
        "security.protocol": PROTOCOL,
        "ssl.ca.location": secure.login.authority_file,
        "sasl.mechanism": MECHANISM,
        "sasl.username": USER,
        "sasl.password.file": str(tmp_path / "password"),
    }
    store = Directory(tmp_path / "store")
    long = {"lease_ms": 600_000, "grace_ms": 600_001}
    with tiered_node(tmp_path / "node", store.url, sections, **long) as node:
        values = filled(node)
        reading = reader(node, **login, tier="required")
        parts = partitions(reading)
        history = tiered(parts)
        assert history
        node.kill()
        got = [row["value"] for row in rows(reading, history)]
        assert got == values[: len(got)]
        assert len(got) >= len(values) // 2
