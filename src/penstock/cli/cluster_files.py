"""What the nodes of a launched cluster have in common, kept from one start to the next.

DIR/cluster.json    {"cluster_id", "voters": [broker ids]}: decided at the first start
DIR/cluster.secret  the secret between the processes, readable by the owner only

The first start decides who the controllers are. A later start with more nodes adds brokers that
follow them: a voter that came from a longer list could elect a leader beside the old one.
"""

import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.base.errors import ConfigError
from penstock.cli.node_files import write_whole
from penstock.node.identity import new_cluster_id

CLUSTER_FILE = "cluster.json"
SECRET_FILE = "cluster.secret"  # noqa: S105  a file name
CONTROLLERS_MAX = 3
"""Three survive one failure; more make every change slower and are seldom worth it."""

CONTROLLER_PORT_DISTANCE = 100
HA_PORT_DISTANCE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCluster:
    """A launched cluster."""

    cluster_id: str
    voters: tuple[int, ...]


def local_cluster(directory: Path, broker_ids: Sequence[int]) -> LocalCluster:
    """Return what the first start in `directory` decided, deciding it where this is the first.

    Raises ConfigError when the file can not be read, or a controller would be left out.
    """
    path = directory / CLUSTER_FILE
    try:
        cluster = _read(path)
    except FileNotFoundError:
        cluster = LocalCluster(
            cluster_id=_id_of_a_node(directory) or new_cluster_id(),
            voters=_first_voters(directory, broker_ids),
        )
        write_whole(path, json.dumps(asdict(cluster)) + "\n")
    missing = [voter for voter in cluster.voters if voter not in broker_ids]
    if missing:
        raise ConfigError(
            f"the cluster in {directory} has its controllers on nodes "
            f"{', '.join(map(str, cluster.voters))}: start it with --nodes {max(cluster.voters)} "
            "or more"
        )
    return cluster


def secret_file(directory: Path) -> Path:
    """Return the path of the secret, making one at the first start."""
    path = directory / SECRET_FILE
    if not path.exists():
        fresh = path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(file, secrets.token_hex(32).encode() + b"\n")
        finally:
            os.close(file)
        fresh.replace(path)
    return path


def _read(path: Path) -> LocalCluster:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return LocalCluster(
            cluster_id=str(fields["cluster_id"]),
            voters=tuple(int(voter) for voter in fields["voters"]),
        )
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"{path} is damaged: restore it, or name another place with --data"
        ) from error


def _id_of_a_node(directory: Path) -> str:
    """Return the cluster id of a node that ran here before the cluster had a file."""
    for identity in sorted(directory.glob("node-*/data/identity.json")):
        try:
            return str(json.loads(identity.read_text(encoding="utf-8"))["cluster_id"])
        except (ValueError, KeyError, OSError):
            continue
    return ""


def _first_voters(directory: Path, broker_ids: Sequence[int]) -> tuple[int, ...]:
    """A node that ran alone before is the only controller that knows its metadata."""
    if (directory / "node-1" / "data" / "metadata").exists():
        return (1,)
    count = min(CONTROLLERS_MAX, len(broker_ids))
    return tuple(broker_ids[: count - 1 + count % 2])
