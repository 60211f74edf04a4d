"""All clients of a run: producers, readers, each in a process and on a host of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.controller.topic_config.local import REMOTE
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode
from simulator.clients.access.administrator import Administrator
from simulator.clients.access.auditor import Auditor, make_first_rules
from simulator.clients.access.token_holder import TokenHolder
from simulator.clients.administrators.inspector import Inspector
from simulator.clients.churn import Churn
from simulator.clients.groups import REBALANCE_MS, SESSIONS_MS, Groups
from simulator.clients.grpc.cast import GrpcCast
from simulator.clients.inquirer import Inquirer
from simulator.clients.keyed import KeyedWriter
from simulator.clients.movers import Movers
from simulator.clients.producer import Lane
from simulator.clients.quotas.limited import Limited
from simulator.clients.readers import FINAL_READER, DirectReader, FinalReader, Follower, Place
from simulator.clients.reading.seeker import Seeker
from simulator.clients.reading.session_reader import SessionReader
from simulator.clients.reading.slave_reader import SlaveReader
from simulator.clients.remoting.cast import RemotingCast
from simulator.clients.row_clients import RowClients
from simulator.clients.sequences import Sequences
from simulator.clients.shares.sharers import Sharers
from simulator.clients.streams.application import Application
from simulator.clients.transactions import Transactions
from simulator.clients.wire import LinkFailed
from simulator.clients.world import ClientWorld, apart_settings, now_ns, open_any, pause
from simulator.clients.zombie import Zombie
from simulator.history import Deletion, History, Partition, Report, Rules, Send, judge
from simulator.history.administration import AdminHistory
from simulator.history.controllers import ControllerModel
from simulator.history.linearizability import Recorder, Verdict, check_linearizable
from simulator.kernel.process import Process
from simulator.kernel.simulation import Simulation
from simulator.run.plan import OFF, Shape
from simulator.run.topology import SESSION_TIMEOUT_MS, TOPIC

if TYPE_CHECKING:
    from simulator.clients.stock import StockProducer

CREATE_TOPICS_VERSION = 4
LAG_NS_MAX = 5_000_000_000
"""Of a consumer that polls, once everything is healed: elections and reconnections are in it."""
_TOPIC_THERE = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


class Clients:
    """Start with `create_topic`, then `start`; `stop_writing`, `read_all`, `judge` in the end."""

    def __init__(self, simulation: Simulation, shape: Shape, brokers: dict[int, str]) -> None:
        apart = apart_settings(shape.local_retention_bytes)
        self.world = ClientWorld(brokers=brokers, partitions=shape.partitions, apart=apart)
        self.lanes: list[Lane | Zombie | Sequences | StockProducer] = []
        self.churn: Churn | None = None
        self.given_up: Sequence[Deletion] = ()
        """What operators had the object store give up of the history's topic."""
        self.switched_keys: Sequence[str] = ()
        """Settings of that topic that operators change."""
        self.inquirer: Inquirer | None = None
        self.sequences: Sequences | None = None
        self.groups = Groups(simulation, shape, self.world)
        self.transactions: Transactions | None = None
        self.movers: Movers | None = None
        self.sharers = Sharers(simulation, self.world, shape.sharers)
        self.streams: Application | None = None
        self.remoting: RemotingCast | None = None
        self.grpc: GrpcCast | None = None
        self.keyed: KeyedWriter | None = None
        self.auditor: Auditor | None = None
        self.token_holders: list[TokenHolder] = []
        self.limited: list[Limited] = []
        self.rows = RowClients(simulation, self.world, shape, self.sharers)
        """See Rules."""
        self.quiet_from_ns = 0
        """From when on nothing is broken any more."""
        self._followers: list[Follower] = []
        self._admin = Recorder(now_ns)
        self._writers: list[Process] = []
        self._simulation = simulation
        self._shape = shape

    async def create_topic(self) -> None:
        """Create the topic; returns when it is there."""
        process = self._simulation.start("client-admin", "client-admin", self._create)
        await process.ended

    async def _create(self, _: Process) -> None:
        draw = self._simulation.random("client-admin")
        if self._shape.administrators:
            await make_first_rules(self.world, draw)
        while True:
            try:
                link = await open_any(self.world, draw)
                answer = await link.call(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, self._topic())
                link.close()
                if answer.topics[0].error_code in _TOPIC_THERE:
                    return
            except LinkFailed:
                pass
            await pause(draw)

    def _topic(self) -> dict[str, object]:
        topic = {
            "name": TOPIC,
            "num_partitions": self._shape.partitions,
            "replication_factor": -1,
            "assignments": [],
            "configs": self._settings(),
        }
        return {"topics": [topic], "timeout": 5_000, "timeout_ms": 5_000, "validate_only": False}

    def _settings(self) -> list[dict[str, str]]:
        settings: list[dict[str, str]] = []
        if self._shape.retention_bytes >= 0:
            settings.append({"name": "retention.bytes", "value": str(self._shape.retention_bytes)})
        apart = self.world.apart or ({REMOTE: "true"} if self._shape.is_tiered else {})
        return settings + [{"name": name, "value": value} for name, value in apart.items()]

    def start(self) -> None:
        """Start writers and readers."""
        for number in range(self._shape.producers):
            name = f"p{number}"
            lanes = [self._lane(name, partition) for partition in range(self._shape.partitions)]
            self.lanes.extend(lanes)
            self._writers.append(self._start(name, [lane.run() for lane in lanes]))
        followers = [
            Follower(
                world=self.world,
                name=f"follower-{partition}",
                random=self._simulation.random(f"follower-{partition}"),
                partition=partition,
            )
            for partition in range(self._shape.partitions)
        ]
        self._start("follower", [follower.run() for follower in followers])
        self._followers = followers
        self._start_zombie()
        self._start_askers()
        if self._shape.slave_reads != OFF:
            self._start_slave_readers()
        if self._shape.is_churning:
            self._start_churn()
        if self._shape.stock_clients:
            self._start_stock()
        self.groups.start(self._start, self._other_topic)
        self._start_others()
        if self._shape.level0_bytes >= 0:
            self._start_keyed()
        if self._shape.administrators:
            self._start_access()
        self._start_direct_readers()

    def _start_others(self) -> None:
        """Those who write to topics of their own."""
        if self._shape.transactors:
            self.transactions = Transactions(
                self._simulation,
                self.world,
                self._shape.transactors,
                is_of_one=self._shape.replication_factor == 1,
            )
            self._writers += self.transactions.start(self._start)
        if self._shape.movers:
            self.movers = Movers(self._simulation, self.world, self._shape.movers)
            self._writers += self.movers.start(self._start)
        if self._shape.sharers:
            self._writers += self.sharers.start(self._start)
        if self._shape.streams:
            self.streams = Application(self._simulation, self.world, self._shape.streams)
            self.streams.start(self._start)
        for number in range(self._shape.limited):
            name = f"limited-{number}"
            one = Limited(world=self.world, name=name, random=self._simulation.random(name))
            self.limited.append(one)
            self._writers.append(self._start(name, [one.run()]))
            self._start(f"{name}-look", [one.look()])
        if self._shape.remoting:
            self.remoting = RemotingCast(self._simulation, self.world, self._shape.remoting)
            self._writers += self.remoting.start(self._start)
        if self._shape.grpc:
            self.grpc = GrpcCast(self._simulation, self.world, self._shape.grpc)
            self._writers += self.grpc.start(self._start)
        self._writers += self.rows.start(self._start)

    def _start_access(self) -> None:
        """Administrators of access, with the users that they make, and who looks after them."""
        administrators: list[Administrator] = []
        for number in range(self._shape.administrators):
            name = f"access-{number}"
            random = self._simulation.random(name)
            one = Administrator(world=self.world, name=name, random=random)
            administrators.append(one)
            self._writers.append(self._start(name, [one.run()]))
        name = "auditor"
        self.auditor = Auditor(
            world=self.world,
            name=name,
            random=self._simulation.random(name),
            administrators=administrators,
        )
        self._start(name, [self.auditor.run()])
        for number in range(self._shape.token_holders):
            name = f"tokens-{number}"
            holder = TokenHolder(world=self.world, name=name, random=self._simulation.random(name))
            self.token_holders.append(holder)
            self._start(name, [holder.run()])

    def _start_direct_readers(self) -> None:
        for host in self.world.brokers.values():
            name = f"direct-{host}"
            random = self._simulation.random(name)
            reader = DirectReader(world=self.world, name=name, random=random, host=host)
            self._start(name, [reader.run()])

    def _start_keyed(self) -> None:
        """A writer of a compacted topic, and who looks records up by their time."""
        name = "keyed"
        self.keyed = KeyedWriter(world=self.world, random=self._simulation.random(name))
        self._writers.append(self._start(name, [self.keyed.run()]))
        seeker = Seeker(
            world=self.world,
            random=self._simulation.random("seeker"),
            is_cut=self._shape.retention_bytes >= 0,
        )
        self._start("seeker", [seeker.run()])

    def _start_zombie(self) -> None:
        zombie = Zombie(
            world=self.world,
            name="zombie",
            partition=self._shape.partitions - 1,
            random=self._simulation.random("zombie"),
        )
        self.lanes.append(zombie)
        self._start("zombie", [zombie.run()])

    def _start_askers(self) -> None:
        """Clients with requests that well-behaved clients rarely send."""
        sequences = Sequences(
            world=self.world,
            name="sequences",
            partition=0,
            random=self._simulation.random("sequences"),
        )
        self.sequences = sequences
        self.lanes.append(sequences)
        self._start("sequences", [sequences.run()])
        self.inquirer = Inquirer(world=self.world, random=self._simulation.random("inquirer"))
        self._start("inquirer", [self.inquirer.run()])
        if self._shape.is_inspected:
            inspector = Inspector(
                world=self.world,
                random=self._simulation.random("inspector"),
                settings={
                    one["name"]: one["value"]
                    for one in self._settings()
                    if one["name"] not in self.switched_keys
                },
            )
            self._start("inspector", [inspector.run()])
            reader = SessionReader(
                world=self.world,
                name="session-reader",
                random=self._simulation.random("session-reader"),
                partition=0,
            )
            self._start("session-reader", [reader.run()])

    def _start_slave_readers(self) -> None:
        for number, rack in enumerate(("rack of m0", "rack of m1")):
            name = f"slave-reader-{number}"
            reader = SlaveReader(
                world=self.world,
                name=name,
                random=self._simulation.random(name),
                partition=number % self._shape.partitions,
                rack=rack,
            )
            self._start(name, [reader.run()])

    def _other_topic(self) -> str:
        return self.churn.topic if self.churn else "no-such-topic"

    def _start_churn(self) -> None:
        self.churn = Churn(
            world=self.world,
            history=AdminHistory(self._admin, "churn"),
            random=self._simulation.random("churn"),
            is_cutting=self._shape.retention_bytes >= 0,
            is_tiered=self._shape.is_tiered,
        )
        self._start("churn", [self.churn.run()])

    def _start_stock(self) -> None:
        from simulator.clients.stock import (  # noqa: PLC0415  needs what only tests install
            StockConsumer,
            StockProducer,
        )

        name = "stock-producer"
        producer = StockProducer(world=self.world, name=name, random=self._simulation.random(name))
        self.lanes.append(producer)
        self._writers.append(self._start(name, [producer.run()]))
        name = "stock-consumer"
        consumer = StockConsumer(world=self.world, name=name, random=self._simulation.random(name))
        self._start(name, [consumer.run()])

    def _lane(self, name: str, partition: int) -> Lane:
        return Lane(
            world=self.world,
            shape=self._shape,
            name=name,
            partition=partition,
            random=self._simulation.random(f"{name}-{partition}"),
        )

    def _start(self, name: str, work: list[Coroutine[Any, Any, None]]) -> Process:
        async def main(_: Process) -> None:
            await asyncio.gather(*work)

        return self._simulation.start(f"client-{name}", name, main)

    def stop_writing(self) -> None:
        """Write nothing new; what is under way is brought to its end."""
        self.world.is_stopping = True

    @property
    def is_idle(self) -> bool:
        """Whether all writers have come to their end."""
        return not any(writer.is_alive for writer in self._writers)

    def stuck(self) -> Iterator[str]:
        """Name the writers that wait, and for what."""
        for lane in self.lanes:
            if not lane.is_idle:
                yield f"{lane.name} waits in partition {lane.partition}: {lane.last_error}"
        if self.keyed is not None and not self.keyed.is_idle:
            yield f"keyed waits: {self.keyed.last_error}"
        if self.transactions is not None:
            yield from self.transactions.stuck()
        if self.movers is not None:
            yield from self.movers.stuck()

    def transactions_behind(self) -> list[str]:
        """Name what is open in transactions, or not read yet."""
        readers = [] if self.transactions is None else self.transactions.behind()
        return readers + ([] if self.movers is None else self.movers.behind())

    def judge_transactions(self, *, is_read: bool) -> list[str]:
        """Return what is wrong with transactions; before all is read nothing is missed."""
        findings: list[str] = []
        if self.transactions is not None and is_read:
            findings += self.transactions.judge()
        if self.movers is not None and is_read:
            findings += self.movers.judge(self._rules(is_complete=True))
        if self.movers is not None and self.quiet_from_ns:
            findings += self.movers.unstable(self.quiet_from_ns)
        return findings

    def access_behind(self) -> list[str]:
        """Name the brokers that do not say yet who may what, how much, and pushes which metrics."""
        rules = [] if self.auditor is None else [*self.auditor.behind()]
        tokens = [text for one in self.token_holders for text in one.behind()]
        limited = [text for one in self.limited for text in one.behind()]
        return rules + tokens + limited + [*self.rows.behind()]

    def tasks_behind(self) -> list[str]:
        """Name what nobody works on, in the application of the run."""
        return [] if self.streams is None else [*self.streams.behind()]

    def judge_tasks(self) -> list[str]:
        """Return what is wrong with the tasks of the application."""
        return [] if self.streams is None else self.streams.judge(self._rules(is_complete=False))

    def read_all(self) -> Process:
        """Start to read everything; the process ends with it."""
        self.world.is_over = True
        random = self._simulation.random(FINAL_READER)
        reader = FinalReader(world=self.world, name=FINAL_READER, random=random)

        async def main(_: Process) -> None:
            await reader.run()

        return self._simulation.start("client-final", FINAL_READER, main)

    def sends(self) -> list[Send]:
        """Return all sends."""
        return [send for lane in self.lanes for send in lane.events()]

    def refused(self) -> int:
        """Count what was sent with a replaced epoch, or out of order, and refused for that."""
        return sum(lane.refused for lane in self.lanes if isinstance(lane, Zombie | Sequences))

    def acked_ends(self) -> dict[Partition, int]:
        """Return the last offset of each partition that was acknowledged to the writers."""
        ends: dict[Partition, int] = {}
        for send in self.sends():
            if send.offset is not None:
                ends[send.partition] = max(send.offset, ends.get(send.partition, -1))
        return ends

    def behind(self, ends: dict[Partition, int]) -> Iterator[str]:
        """Name the followers that have not read up to these ends yet."""
        for follower in self._followers:
            at = follower.places.get(follower.partition, Place()).offset
            end = ends.get(follower.partition, -1)
            if at <= end:
                yield f"{follower.name} stands at {at}, and {end} is acknowledged"

    def judge(self, *, is_complete: bool) -> Report:
        """Judge the history; `is_complete`: the final reader has read everything, groups too."""
        rules = self._rules(is_complete=is_complete)
        moved = [] if self.movers is None else self.movers.commits(rules)
        history = History(
            sends=self.sends(),
            polls=self.world.polls,
            commits=[*self.groups.commits(), *moved],
            owned=self.groups.owned(),
            deletions=[*(self.churn.deletions if self.churn else ()), *self.given_up],
        )
        return judge(history, rules)

    def _rules(self, *, is_complete: bool) -> Rules:
        kept_ms = self._shape.group_kept_ms
        return Rules(
            final_reader=FINAL_READER if is_complete else None,
            stale_ns_max=SESSION_TIMEOUT_MS * 1_000_000,
            lag_ns_max=LAG_NS_MAX if self.quiet_from_ns else None,
            rejoin_ns_max=(SESSIONS_MS[1] + REBALANCE_MS) * 1_000_000,
            lag_from_ns=self.quiet_from_ns,
            positions_kept_ns=None if kept_ms < 0 else kept_ms * 1_000_000,
            woken=self.world.woken,
            readers=self.groups.readers() if is_complete else (),
        )

    def refusals(self) -> list[str]:
        """Name the answers that no broker may give, but for those that stood still just before."""
        rules = self._rules(is_complete=False)
        return [
            refusal.text
            for refusal in self.world.refusals
            if not rules.may_be_old(refusal.told_by, refusal.at_ns, refusal.at_ns)
        ]

    def judge_topics(self) -> str:
        """Say what no order of the administrator's requests explains, or nothing."""
        judgement = check_linearizable(self._admin.history(), ControllerModel())
        return judgement.detail if judgement.verdict is Verdict.VIOLATION else ""
