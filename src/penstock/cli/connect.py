"""The connection of a command to a cluster: one client, closed at the end; errors with a hint."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.base.errors import PlatformError
from penstock.cli.output import note
from penstock.cli.values import SECONDS_MAX

if TYPE_CHECKING:
    from penstock.client.cluster import Cluster
    from penstock.client.errors import TopicNotFound
    from penstock.client.security import ClientSecurity

CLIENT_ID = "penstock-cli"
CLIENT_CONFIG_VARIABLE = "PENSTOCK_CLIENT_CONFIG"
"""Names the file with the security of connections to brokers."""
FIRST_CONTACT_SECONDS_MAX = 1.5
"""Longest search for a first broker: a wrong address should be reported soon."""
FIRST_CONNECT_MS_MAX = 2500
"""Longest wait for a host that does not answer at all."""

TimeoutOption = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", min=0.1, max=SECONDS_MAX, help="Give up after trying for so long."
    ),
]
ADMIN_SECONDS = 15.0
STREAM_SECONDS = 120.0
"""Longer than a restart of a node takes, so that produce and consume continue after one."""


QUIET_SECONDS = 3.0
"""For so long nobody wonders what a command does; an election takes less."""
NAME_RULE = "a name has ASCII letters, digits, '.', '_' and '-', and at most 249 of them"


class CommandFailed(PlatformError):
    """A command failed; the message says what to do."""


@contextmanager
def patient(who: str, timeout: float) -> Iterator[None]:
    """Say on stderr for whom the block waits, if it does, and that they have not answered."""
    from threading import Timer

    from penstock.client.errors import RequestTimedOut

    waiting = Timer(QUIET_SECONDS, note, (f"waiting for {who}, for about {timeout:g} s at most",))
    waiting.daemon = True
    waiting.start()
    try:
        yield
    except RequestTimedOut as error:
        text = f"{who} did not answer in time: see whether all of them run"
        raise CommandFailed(f"{text} ({error})") from error
    finally:
        waiting.cancel()


def client_security() -> "ClientSecurity":
    """Return how commands talk to brokers: by --client-config, or its variable."""
    from penstock.client.security import ClientSecurity, read_security

    path = client_config()
    return read_security(Path(path)) if path else ClientSecurity()


def client_config() -> str:
    """Return the file of --client-config, or of its variable; empty without."""
    return os.environ.get(CLIENT_CONFIG_VARIABLE, "")


@contextmanager
def connected(bootstrap: str, timeout: float) -> Iterator["Cluster"]:
    """Yield a client that is connected to a broker; its errors are raised with a hint."""
    from penstock.client.cluster import Cluster
    from penstock.client.errors import BrokerError, TopicNotFound
    from penstock.client.settings import ClientSettings
    from penstock.protocol.error_codes import ErrorCode

    settings = ClientSettings(
        bootstrap=bootstrap,
        client_id=CLIENT_ID,
        deadline_ms=round(timeout * 1000),
        security=client_security(),
    )
    # A port that accepts connections and never answers must not take longer than the time-out.
    patience = min(settings.request_timeout_ms, settings.deadline_ms)
    settings = replace(settings, request_timeout_ms=patience)
    first = min(timeout, FIRST_CONTACT_SECONDS_MAX)
    hasty = replace(
        settings,
        deadline_ms=round(first * 1000),
        connect_timeout_ms=min(settings.connect_timeout_ms, FIRST_CONNECT_MS_MAX),
    )
    with Cluster(hasty) as probe, patient(bootstrap, patience / 1000):
        probe.describe([])
    with Cluster(settings) as cluster:
        try:
            yield cluster
        except TopicNotFound as error:
            raise CommandFailed(f"{error}: {_hint(error)}") from error
        except BrokerError as error:
            # Metadata answers have the code alone.
            if error.message or error.code is not ErrorCode.INVALID_TOPIC_EXCEPTION:
                raise
            raise CommandFailed(f"{error}: {NAME_RULE}") from error


def _hint(error: "TopicNotFound") -> str:
    """Return what to do about a topic, or a partition, that is not there."""
    from penstock.controller.commands.topic_names import INTERNAL_TOPICS

    if error.topic in INTERNAL_TOPICS:
        return "it is Penstock's own, and is made when something first needs it"
    if error.partition is not None:
        return f"see penstock topic describe {error.topic}"
    return f"see penstock topic list, or make it: penstock topic create {error.topic}"
