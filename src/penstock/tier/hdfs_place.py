"""Where an HDFS is, as `tier.url` and `tier.endpoint` tell it.

    hdfs://HOST:PORT/DIRECTORY                      one NameNode
    hdfs://NAME/DIRECTORY  and  HOST:PORT,HOST:PORT a name that several NameNodes answer for

Hadoop's own configuration files are not read: a name means nothing without the addresses.

Source: docs/adr/0174; dfs.ha.namenodes and dfs.namenode.rpc-address of Hadoop.s hdfs-default.xml.
"""

from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from penstock.base.errors import ConfigError

NAME_NODES_MAX = 8
"""Of one name; Hadoop recommends three at most."""


class HdfsPlace(NamedTuple):
    """A directory, and who is asked for it."""

    name_nodes: tuple[str, ...]
    """HOST:PORT of each."""
    directory: str
    """Begins with a slash, and does not end with one."""


def hdfs_place(url: SplitResult, endpoint: str) -> HdfsPlace:
    """Return what a URL with the scheme hdfs means. Raises ConfigError."""
    text = url.geturl()
    if "@" in url.netloc:
        raise ConfigError(f"{text}: the user is not part of the URL of an HDFS, see tier.user")
    parts = url.path.strip("/").split("/")
    if url.query or url.fragment or any(part in {"", ".", ".."} for part in parts):
        raise ConfigError(f"{text}: write hdfs://HOST:PORT/DIRECTORY, the directory not the root")
    return HdfsPlace(_name_nodes(url.netloc, endpoint), "/" + "/".join(parts))


def _name_nodes(netloc: str, endpoint: str) -> tuple[str, ...]:
    if _is_address(netloc):
        if endpoint:
            raise ConfigError(
                f"hdfs://{netloc} names its NameNode, and tier.endpoint others: leave one out"
            )
        return (netloc,)
    found = tuple(one.strip() for one in endpoint.split(",")) if endpoint else ()
    if not netloc or not found or len(found) > NAME_NODES_MAX or not all(map(_is_address, found)):
        raise ConfigError(
            f"hdfs://{netloc} has no port: tier.endpoint tells the NameNodes behind the name,"
            f" HOST:PORT,HOST:PORT, {NAME_NODES_MAX} at most"
        )
    return found


def _is_address(text: str) -> bool:
    """Whether this is a host and a port, and nothing else."""
    try:
        parts = urlsplit(f"//{text}")
        return bool(parts.hostname and parts.port) and parts.netloc == text
    except ValueError:  # no number, or one that is no port
        return False
