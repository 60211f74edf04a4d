"""The harness leaves no process behind, whatever happens while a node starts."""

from pathlib import Path

import pytest

from harness.node import NodeFailed, NodeProcess


@pytest.mark.process
def test_a_node_that_stays_silent_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(self: NodeProcess, timeout_seconds: float) -> None:
        del timeout_seconds
        assert self.is_running
        raise NodeFailed("no answer")

    monkeypatch.setattr(NodeProcess, "wait_ready", give_up)
    node = NodeProcess(tmp_path)
    with pytest.raises(NodeFailed, match="no answer"), node:
        pytest.fail("it was never ready")
    assert not node.is_running
