"""Kafka's own ConfigCommand switches copying into the object store off, and on again."""

from pathlib import Path

import pytest

from harness.node import NodeProcess
from tests.compat.java_tools import tool
from tests.integration.test_tier import settings

pytestmark = [pytest.mark.compat, pytest.mark.timeout(300)]

TOPIC = "kept"


def test_copies_are_disabled_and_given_up_by_kafkas_tool(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    with NodeProcess(tmp_path / "node", settings=settings(f"file://{store}")) as node:
        at = ("--bootstrap-server", node.bootstrap)
        made = ("--config", "remote.storage.enable=true", "--config", "local.retention.ms=1000")
        tool("kafka-topics", *at, "--create", "--topic", TOPIC, *made)

        def altered(*change: str) -> str:
            about = ("--entity-type", "topics", "--entity-name", TOPIC)
            return tool("kafka-configs", *at, *about, "--alter", *change, check=False)

        refused = altered("--add-config", "remote.log.copy.disable=true")
        assert "the `local.retention.ms` and `retention.ms` must be set to the identical" in refused
        both = "remote.log.copy.disable=true,local.retention.ms=-2"
        assert "Completed" in altered("--add-config", both)
        assert "Completed" in altered("--delete-config", "remote.log.copy.disable")
        off = "It is invalid to disable remote storage without deleting remote data."
        assert off in altered("--delete-config", "remote.storage.enable")
        assert off in altered("--add-config", "remote.storage.enable=false")
        deleted = "remote.storage.enable=false,remote.log.delete.on.disable=true"
        assert "Completed" in altered("--add-config", deleted)
        assert "Completed" in altered("--add-config", "remote.storage.enable=true")
