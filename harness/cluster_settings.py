"""What the processes of one cluster share: id, secret, and the settings that follow from them."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.node import NodeProcess, SettingsOf
from harness.ports import free_port
from penstock.node.identity import new_cluster_id


class ClusterSettings:
    """Writes the secret into a new cluster's directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.secret = directory / "cluster.secret"
        self.secret.write_text(secrets.token_hex(32))
        self.secret.chmod(0o600)
        self.cluster_id = new_cluster_id()

    def of(
        self,
        peer_id: int,
        *,
        voters: Sequence[str],
        controller_port: int,
        replicas: int,
        more: Iterable[SettingsOf] = (),
    ) -> dict[str, dict[str, object]]:
        """Return the settings of a process; what comes later in `more` stands over what is before.

        `voters` are written "id@host:port". Replication gets a free port.
        """
        merged: dict[str, dict[str, object]] = {
            "node": {"broker_id": peer_id, "cluster_id": self.cluster_id},
            "cluster": {
                "voters": list(voters),
                "controller_port": controller_port,
                "ha_port": free_port(),
                "secret_file": str(self.secret.absolute()),
            },
            "controller": {"default_replication_factor": replicas},
        }
        for values_of in more:
            for section, values in values_of.items():
                merged.setdefault(section, {}).update(values)
        return merged


def log_tails(processes: Mapping[int, NodeProcess], lines: int) -> str:
    """Return the end of every process's log, by peer id."""
    return "\n".join(
        f"--- {peer_id}\n{process.log_tail(lines)}" for peer_id, process in processes.items()
    )
