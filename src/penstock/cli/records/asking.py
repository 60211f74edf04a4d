"""What `penstock message` asks nodes by their ports for RocketMQ's clients."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from penstock.base.errors import ConfigError
from penstock.cli.launch.http import node_addresses, node_context

if TYPE_CHECKING:
    from penstock.http.upstream.connection import Credentials
    from penstock.http.upstream.finding import Answer, Query
    from penstock.http.upstream.nodes import Nodes

MOST = 64
"""Messages that a node tells."""
TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Topic of the messages.")]
KeyOption = Annotated[
    str | None, typer.Option(metavar="KEY", help="One of its keys; a Kafka record's key.")
]
IdOption = Annotated[str | None, typer.Option("--id", metavar="ID", help="Its id (UNIQ_KEY).")]
KeysOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Sign with the access key in this file, user:secret."),
]


def wanted_name(key: str | None, message_id: str | None) -> tuple[str, bool]:
    """Return what is looked for, and whether that is an id. Raises ConfigError."""
    name = key if key is not None else message_id
    if not name or (key is not None and message_id is not None):
        raise ConfigError("give either --key or --id")
    return name, message_id is not None


class Asker(NamedTuple):
    """Whom to ask, and as whom."""

    bootstrap: str
    access_key: Path | None
    authority: Path | None
    seconds: float

    def ask(self, queries: Sequence["Query"]) -> list["Answer"]:
        """Return the answers, in order. Raises UpstreamError, ConfigError."""
        import asyncio  # of no use to commands that ask nobody

        return asyncio.run(self._ask(queries))

    async def _ask(self, queries: Sequence["Query"]) -> list["Answer"]:
        from penstock.http.upstream.finding import find_messages

        nodes = self._nodes()
        try:
            return [await find_messages(nodes, query, self.seconds) for query in queries]
        finally:
            nodes.close()

    def _nodes(self) -> "Nodes":
        from penstock.http.upstream.nodes import Nodes

        key = None if self.access_key is None else _credentials(self.access_key)
        return Nodes(node_addresses(self.bootstrap), key, node_context(self.authority))


def _credentials(path: Path) -> "Credentials":
    """Return the first access key of a file, in the form of nodes' own. Raises ConfigError."""
    from penstock.http.upstream.connection import Credentials
    from penstock.node.access.files import read_private

    text = read_private("--access-key", str(path))
    lines = [line.strip() for line in text.splitlines()]
    first = next((line for line in lines if line and not line.startswith("#")), "")
    user, _, secret = first.partition(":")
    if not user or not secret:
        raise ConfigError(f"--access-key {path}: it has no line user:secret")
    return Credentials(user, secret)
