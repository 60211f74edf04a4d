"""`penstock audit metrics` of a node in this process: which rows, and what is told of them."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.program import app
from tests.kafka.test_client_metrics import configure, push, subscribed, taken_by
from tests.live_node import running_node
from tests.telemetry.pushes import data_of, gauge

RUNNER = CliRunner()


def run(port: int, *arguments: str) -> Any:
    where = ("--bootstrap", f"127.0.0.1:{port}", "-o", "json")
    return RUNNER.invoke(app, ["audit", "metrics", *where, *arguments])


@pytest.mark.process
def test_metrics_are_told_by_client_and_prefix_and_from_a_time(tmp_path: Path) -> None:
    with running_node(tmp_path, "broker.client_metrics=true") as node:
        missing = run(node.port)
        assert "client-metrics NAME" in str(missing.exception)
        with closing(node.connect()) as client:
            configure(client, "all", {"metrics": "*"})
            pushed = data_of(gauge("org.a", 1.0, 2.0, node="7"), gauge("org.b", 3.0))
            assert push(client, subscribed(client), pushed) == 0
        taken = taken_by(node)
        assert node.until(lambda: taken.written == 3)

        def told(*arguments: str) -> list[tuple[str, int, float]]:
            rows = json.loads(run(node.port, *arguments).output)
            return [(row["metric"], row["points"], row["value"]) for row in rows]

        both = [("org.a", 2, 2.0), ("org.b", 1, 3.0)]
        assert told() == told("--client-id", "raw-client") == both
        assert told("--metric", "org.b") == both[1:]
        assert told("--instance", "ABEiM0RVZneImaq7zN3u_w") == both
        assert told("--instance", "other") == told("--client-id", "raw") == []
        assert told("--from", "2099-01-01") == []
        (first, _) = json.loads(run(node.port).output)
        assert first["attributes"] == "node=7"
