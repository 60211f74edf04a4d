"""A member of a share group over the project's client, in a thread of its own.

The requests are those of the simulator's member; each is answered before the next one is sent, so
that it is known which hand-out was asked for after which answer. No stock client tells that: theirs
ask ahead.
"""

import base64
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.client.cluster import Cluster
from penstock.client.connection import Connection
from penstock.client.errors import ClientError, UnsupportedByBroker
from penstock.client.settings import ClientSettings
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import decode_response, encode_request
from simulator.clients.shares.member import (
    WAIT_MS,
    Ask,
    Habits,
    NoAnswer,
    ShareMember,
    TryLater,
    Turn,
)
from simulator.history.shares import ShareNotes

VERSIONS = 1, 2
"""Of ShareFetch and ShareAcknowledge."""
ANSWER_MS = 10_000
PAUSE_SECONDS = 0.1
JOIN_SECONDS = 60.0


@dataclass(slots=True)
class ShareReader:
    """One member after the other: one that is killed is followed by another one."""

    bootstrap: str
    group: str
    topic: str
    number: int
    notes: ShareNotes
    habits: Habits = field(default_factory=Habits)
    members: int = 0
    last_error: str = ""
    problems: list[str] = field(default_factory=list)
    """Why it could not go on."""
    _is_stopping: threading.Event = field(default_factory=threading.Event)
    _is_draining: threading.Event = field(default_factory=threading.Event)
    _is_killed: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to read."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def kill(self) -> None:
        """Let the member vanish: its connections end, and it never leaves."""
        self._is_killed.set()

    def drain(self) -> None:
        """Accept everything from now on."""
        self._is_draining.set()

    def stop(self) -> None:
        """Leave, and end."""
        self._is_stopping.set()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        random = Random(f"{self.group}-{self.number}")
        try:
            while not self._is_stopping.is_set():
                self._is_killed.clear()
                self._live(random)
        except Exception as error:  # noqa: BLE001  whatever ends a member is a finding
            self.problems.append(f"member {self.number}: {type(error).__name__}: {error}")

    def _live(self, random: Random) -> None:
        settings = ClientSettings(
            bootstrap=self.bootstrap,
            connect_timeout_ms=1_000,
            request_timeout_ms=ANSWER_MS,
            deadline_ms=ANSWER_MS,
        )
        self.members += 1
        with Cluster(settings) as cluster:
            member = ShareMember(
                group=self.group,
                topic=self.topic,
                name=new_member_id(),
                random=random,
                notes=self.notes,
                now_ns=time.monotonic_ns,
                version=self._version(cluster),
                habits=self.habits,
            )
            while not self._is_stopping.is_set():
                if self._is_killed.is_set():
                    return
                member.is_draining = self._is_draining.is_set()
                self._turn(cluster, member)
            try:
                self._drive(cluster, member.leave())
            except (NoAnswer, ClientError) as error:
                self.last_error = str(error)

    def _version(self, cluster: Cluster) -> int:
        newest = VERSIONS[self.number % len(VERSIONS)]
        while not self._is_stopping.is_set():
            try:
                connection = cluster.any_connection()
                return connection.version(ApiKey.SHARE_FETCH, (VERSIONS[0], newest))
            except UnsupportedByBroker:
                raise
            except ClientError as error:
                self._pause(cluster, error)
        return newest

    def _turn(self, cluster: Cluster, member: ShareMember) -> None:
        try:
            view = cluster.topic(self.topic)
            leaders = {one.partition: one.leader for one in view.partitions}
            self._drive(cluster, member.turn(leaders))
        except (NoAnswer, TryLater, ClientError) as error:
            self._pause(cluster, error)

    def _pause(self, cluster: Cluster, error: Exception) -> None:
        self.last_error = str(error)
        cluster.forget(self.topic)
        time.sleep(PAUSE_SECONDS)

    def _drive(self, cluster: Cluster, turn: Turn) -> None:
        """Send what a turn asks for, and give it the answers."""
        ask = next(turn, None)
        while ask is not None:
            try:
                answer = self._answer(cluster, ask)
            except ClientError as error:
                turn.throw(NoAnswer(str(error)))
                return
            try:
                ask = turn.send(answer)
            except StopIteration:
                return

    def _answer(self, cluster: Cluster, ask: Ask) -> Any:
        if ask.leader is None:
            connection = cluster.coordinator_connection(self.group)
        else:
            connection = cluster.connection(ask.leader)
        return _call(connection, ask.key, ask.version, ask.fields)


def new_member_id() -> str:
    """Return a member id as Kafka's clients make them: its broker parses them for sessions."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


def _call(connection: Connection, key: ApiKey, version: int, fields: Mapping[str, Any]) -> Any:
    connection.send(key, version, encode_request(key, version, fields))
    frame, at = connection.receive(wait_ms=WAIT_MS)
    return decode_response(key, version, frame, at)
