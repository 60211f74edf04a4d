"""The shared files of a local cluster, kept from one start to the next.

DIR/cluster.json    {"cluster_id", "voters": [broker ids]}: decided at the first start;
                    "is_founded": true once these have run
DIR/cluster.secret  the shared secret of the processes, readable by the owner only

The first start decides which nodes are controllers. A later start with more nodes adds brokers that
are not controllers: a voter that came from a longer list could elect a leader beside the old one.

Controllers with empty disks found a group. They can not tell a first start from the loss of all
their disks, and after `controller add` others may still have the metadata. This file tells the two
apart: if `is_founded` is set and no founder has its log, nothing is started.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from penstock.base.errors import ConfigError
from penstock.cli.launch.node_files import write_private, write_whole
from penstock.node.identity import new_cluster_id

CLUSTER_FILE = "cluster.json"
SECRET_FILE = "cluster.secret"  # noqa: S105  a file name
CONTROLLERS_MAX = 3
"""Three survive one failure; more make every change slower and are seldom needed."""

CONTROLLER_PORT_DISTANCE = 100
HA_PORT_DISTANCE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalCluster:
    """The contents of cluster.json."""

    cluster_id: str
    voters: tuple[int, ...]
    is_founded: bool = False
    """Whether the voters have founded their group; from then on an empty disk means a lost one."""


def local_cluster(directory: Path, broker_ids: Sequence[int]) -> LocalCluster:
    """Return the cluster of `directory`; at the first start, create its file.

    Raises ConfigError if the file can not be read, or if a controller would not be started.
    """
    path = directory / CLUSTER_FILE
    try:
        cluster = _read(path)
    except FileNotFoundError:
        cluster = LocalCluster(
            cluster_id=_id_of_a_node(directory) or new_cluster_id(),
            voters=_first_voters(directory, broker_ids),
        )
        _write(path, cluster)
    missing = [voter for voter in cluster.voters if voter not in broker_ids]
    if missing:
        raise ConfigError(
            f"the cluster in {directory} has its controllers on nodes "
            f"{', '.join(map(str, cluster.voters))}: start it with --nodes {max(cluster.voters)} "
            "or more"
        )
    return cluster


def check_founders(directory: Path, metadata: Mapping[int, Path]) -> None:
    """Refuse to found a second group; `metadata` has the directory of each node's metadata log.

    Raises ConfigError if the founders have run and none of them has its log any more.
    """
    path = directory / CLUSTER_FILE
    if not path.exists():
        return
    cluster = _read(path)
    if not cluster.is_founded or any(_is_there(metadata[voter]) for voter in cluster.voters):
        return
    where = ", ".join(str(metadata[voter]) for voter in cluster.voters)
    raise ConfigError(
        f"the metadata log of the controllers that founded this cluster is gone ({where}): put a "
        f'disk back. If others were added, write the ids of all controllers into "voters" of {path}'
    )


def note_founded(directory: Path, metadata: Mapping[int, Path]) -> None:
    """Note that the founders have run, if one of them has a metadata log."""
    path = directory / CLUSTER_FILE
    if not path.exists():
        return
    cluster = _read(path)
    if not cluster.is_founded and any(_is_there(metadata[voter]) for voter in cluster.voters):
        _write(path, replace(cluster, is_founded=True))


def _is_there(metadata: Path) -> bool:
    return metadata.is_dir() and any(metadata.iterdir())


def secret_file(directory: Path) -> Path:
    """Return the path of the secret; create it at the first start."""
    path = directory / SECRET_FILE
    if not path.exists():
        write_private(path, secrets.token_hex(32) + "\n")
    return path


def _write(path: Path, cluster: LocalCluster) -> None:
    fields = asdict(cluster)
    if not cluster.is_founded:
        del fields["is_founded"]
    write_whole(path, json.dumps(fields) + "\n")


def _read(path: Path) -> LocalCluster:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return LocalCluster(
            cluster_id=str(fields["cluster_id"]),
            voters=tuple(int(voter) for voter in fields["voters"]),
            is_founded=fields.get("is_founded") is True,
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
    """Return the controllers: a node that ran alone before is the only one with its metadata."""
    if (directory / "node-1" / "data" / "metadata").exists():
        return (1,)
    count = min(CONTROLLERS_MAX, len(broker_ids))
    return tuple(broker_ids[: count - 1 + count % 2])
