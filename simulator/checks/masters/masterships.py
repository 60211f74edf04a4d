"""Feeds each mastership's model with the master's messages, and checks each decision with it.

    a frame of a slave arrives ─► Mastership (mastership.py) ◄─ a controller's answer arrives
    the confirm position moves ─► allowed?     a change is proposed ─► allowed?
    at intervals               ─► does the master use the sets that may be recorded?
                                  has it proposed to remove members that are overdue?

A proposed change may become recorded from the moment at which the request leaves the process until
an answer says that it was refused or not taken; without an answer it stays possible. The next
sync-state set epoch ends all of them.

From the production code only log positions and the image are read.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from penstock.base.ids import ReplicaSetId
from penstock.controller.commands.codec import decode_command, decode_error
from penstock.controller.commands.command import ChangeSyncStateSet, Command
from penstock.controller.errors import MetadataQueueFull, NotActiveController, RefusedCommand
from penstock.controller.metadata.image import ReplicaSetImage
from penstock.controller.session import NO_HEARTBEAT, Heartbeat, HeartbeatAnswer, Submit
from penstock.replica.master_set import MasterSet
from penstock.replica.replica_set import ReplicaSetMember
from penstock.replication.messages import Acknowledge, Begin, Goodbye, Hello, HelloAnswer, Refused
from penstock.replication.sync_state import Change, SyncStateKeeper
from penstock.runtime.controller_driver import ControllerDriver
from penstock.runtime.ha.live_link import LiveLink
from penstock.runtime.ha.server import ServedLink
from penstock.runtime.session.link import ControllerSession
from penstock.runtime.session.messages import SubmitOutcome
from simulator.checks.led import Led
from simulator.checks.masters.mastership import Asked
from simulator.checks.patched import patched
from simulator.kernel.process import current_process
from simulator.run.server import Server

Found = Callable[[str], None]
Real = Callable[..., Any]

PATIENCE_MS = 1_500
"""For a change that is due: questions without an answer are repeated after a pause that grows."""


class Masterships:
    """See the module. One for all sets of a run."""

    def __init__(self, servers: Mapping[str, Server], found: Found) -> None:
        self._servers = servers
        self._found = found
        self._led: dict[tuple[str, int, ReplicaSetId], Led] = {}
        """(host, number of its process, set) -> its newest mastership."""
        self._judging: dict[int, Led] = {}
        """By identity of whoever judges who is in step."""
        self._attempts: dict[tuple[str, int, int, int], ChangeSyncStateSet] = {}
        """(host, number of its process, controller, request) -> what it asks for."""
        self._controller_epochs: dict[tuple[str, int], int] = {}
        """(host, number of its process) -> the newest controller epoch that it has heard."""
        self._followed: dict[int, ReplicaSetMember] = {}
        """By identity: the members that are listened to."""

    def of(self, host: str, set_id: int) -> Led | None:
        """Return what the host's present process leads of a set."""
        return self._led.get((host, self._servers[host].starts, ReplicaSetId(set_id)))

    # --- now and then --------------------------------------------------------------------------

    def look(self, server: Server, member: ReplicaSetMember) -> None:
        """Look at a master that nothing happens to."""
        led, one = self._leading(server.name, member)
        if led is None or one is None:
            return
        if server.is_paused:
            led.quiet_ms = led.now_ms
            return
        now_ms, log = led.now_ms, led.log()
        led.model.sees(one, log, now_ms)
        self._compare_sets(led, one)
        others = [who for who in one.sync_state_set if who != led.own_id]
        overdue = {
            who: wrong
            for who in others
            if (wrong := led.model.overdue(one, led.brokers.get(who), who, log, now_ms))
        }
        if led.is_asking or not overdue:
            led.quiet_ms = now_ms
        elif now_ms - led.quiet_ms > PATIENCE_MS:
            led.quiet_ms = now_ms
            self._tell(led, f"does not ask for another sync-state set, though {overdue}")

    def _compare_sets(self, led: Led, replica_set: ReplicaSetImage) -> None:
        goes_by = led.real.member.confirm.membership
        for wrong in led.model.wrong_sets(replica_set, goes_by.committed, goes_by.proposed):
            self._tell(led, wrong)
        # Not in the very moment of a change: the image may be seen here before its master sees it.
        wrong, now_ms = led.model.wrong_recorded(replica_set, goes_by.committed), led.now_ms
        since_ms = led.wrong_recorded[1] if wrong == led.wrong_recorded[0] else now_ms
        led.wrong_recorded = wrong, since_ms
        if wrong and since_ms < now_ms:
            self._tell(led, wrong)
        tracked = led.real.member.confirm.position
        if tracked < led.tracked:
            self._tell(led, f"takes back what enough members hold, {led.tracked}: {tracked}")
        led.tracked = tracked
        is_sole = led.real.member.log.is_sole_member
        if is_sole and replica_set.replicas != (led.own_id,):
            self._tell(led, f"takes its log for the only one of {replica_set.replicas}")

    def _leading(
        self, host: str, member: ReplicaSetMember
    ) -> tuple[Led | None, ReplicaSetImage | None]:
        led = self.of(host, member.replica_set_id)
        if led is None or led.real.member is not member or not led.is_leading:
            return None, None
        return led, led.image

    def _tell(self, led: Led, wrong: str) -> None:
        name = f"{led.server.name}: set {led.set_id} in epoch {led.real.leader_epoch}"
        self._found(f"{name} {wrong}")

    # --- decisions -----------------------------------------------------------------------------

    def confirmed(self, host: str, member: ReplicaSetMember) -> None:
        """A master's confirm position has moved."""
        led, one = self._leading(host, member)
        if led is None or one is None:
            return
        for wrong in led.model.wrong_confirmed(one, led.log(), led.now_ms):
            self._tell(led, wrong)
        self._compare_sets(led, one)

    def may_read(self, host: str, member: ReplicaSetMember) -> str:
        """Say why a master may not answer reads now, or nothing."""
        led, one = self._leading(host, member)
        if led is None or one is None:
            return ""
        if led.model.has_lease(one, led.now_ms, is_paused=led.is_paused):
            return ""
        return f"answers reads of set {led.set_id} in epoch {led.real.leader_epoch} without a lease"

    def _asks(self, led: Led, change: Change) -> None:
        led.is_asking, led.quiet_ms = True, led.now_ms
        one = led.image
        if one is None:
            return
        joining = tuple(
            (each.broker_id, each.replica_id, each.broker_epoch) for each in change.joining
        )
        asked = Asked(
            change.leader_epoch, change.sync_state_set_epoch, change.sync_state_set, joining
        )
        wrongs = led.model.wrong_change(one, led.brokers, asked, led.log(), led.now_ms)
        for wrong in wrongs:
            self._tell(led, wrong)
        led.model.asked.add(change.sync_state_set)

    # --- what leaves a process -----------------------------------------------------------------

    def said(self, host: str, to: int, message: object) -> None:
        """Hear what leaves a process."""
        match message:
            case HelloAnswer():
                self._greets(host, to, message)
            case Submit():
                command = decode_command(message.command)
                if isinstance(command, ChangeSyncStateSet):
                    starts = self._servers[host].starts
                    self._attempts[host, starts, to, message.request_id] = command
                    self._count(command, 1)
            case SubmitOutcome():
                self._answers(host, to, message)
            case Heartbeat():
                self._claims(host, message)
            case _:
                pass

    def _answers(self, host: str, to: int, message: SubmitOutcome) -> None:
        own_id = self._servers[host].host.process_id
        asker = self._host_of(to)
        if asker is None or not message.error or message.is_fate_open:
            return
        key = (asker.name, asker.starts, own_id, message.request_id)
        command = self._attempts.pop(key, None)
        if command is not None and _is_over(decode_error(message.error)):
            self._count(command, -1)

    def _host_of(self, broker_id: int) -> Server | None:
        for server in self._servers.values():
            if server.host.is_broker and server.host.process_id == broker_id:
                return server
        return None

    def _count(self, command: ChangeSyncStateSet, by: int) -> None:
        """One attempt more, or less, asks for this set as long as the set has its epoch."""
        server = self._host_of(command.master)
        led = None if server is None else self.of(server.name, command.replica_set_id)
        one = None if led is None else led.image
        if led is None or one is None or command.leader_epoch != led.real.leader_epoch:
            return
        led.model.follow(one)
        if command.sync_state_set_epoch == one.sync_state_set_epoch:
            some = command.sync_state_set
            led.model.under_way[some] = max(0, led.model.under_way[some] + by)

    def _greets(self, host: str, to: int, message: HelloAnswer) -> None:
        led = self.of(host, message.replica_set_id)
        if led is None or led.real.leader_epoch != message.leader_epoch or to not in led.asking:
            return
        led.hellos[to] = led.asking.pop(to)
        hello = led.hellos[to][1]
        led.model.gone(to, led.now_ms)
        led.model.greeted(to, hello.replica_id, hello.incarnation, led.now_ms)

    def _refuses(self, live: LiveLink, message: Refused) -> None:
        """A session ends with a refusal on its link; on another link it goes on.

        That may be a greeting that came late, or a question of before a link was lost.
        """
        led = self.of(current_process().host, message.replica_set_id)
        if led is None or led.real.leader_epoch != message.leader_epoch:
            return
        asking, known = led.asking.get(live.peer_id), led.hellos.get(live.peer_id)
        if asking is not None and asking[0].live is live:
            del led.asking[live.peer_id]
        if known is not None and known[0].live is live:
            led.model.gone(live.peer_id, led.now_ms)

    def _claims(self, host: str, message: Heartbeat) -> None:
        """Check that a master reports its slaves to controllers as they have reported to it."""
        for report in message.sets:
            led = self.of(host, report.replica_set_id)
            if led is None or not led.is_leading or led.image is None:
                continue
            if report.log_end_position > led.real.member.log.durable_position:
                self._tell(led, f"reports {report.log_end_position}, which is not durable")
            for each in report.slaves:
                held = led.model.slave(each.broker_id).held
                if led.model.slave(each.broker_id).is_following is not each.is_connected:
                    self._tell(led, f"reports {each.broker_id} as connected: {each.is_connected}")
                if each.is_connected and each.acknowledged_position > held:
                    self._tell(led, f"reports more of {each.broker_id} than it holds, {held}")

    # --- what arrives --------------------------------------------------------------------------

    def _hears(self, link: ServedLink, message: object) -> None:
        if not isinstance(message, Hello | Begin | Acknowledge | Goodbye):
            return
        led = self.of(current_process().host, message.replica_set_id)
        if led is None or led.real.leader_epoch != message.leader_epoch:
            return
        broker_id, now_ms, model = link.live.peer_id, led.now_ms, led.model
        is_his = broker_id in led.hellos and led.hellos[broker_id][0] is link
        if isinstance(message, Hello):
            led.asking[broker_id] = link, message
            if is_his:
                model.gone(broker_id, now_ms)
            return
        if not is_his:
            return  # of a link that another one has replaced
        match message:
            case Begin():
                model.begun(broker_id, message.position, message.whole_from)
            case Acknowledge():
                model.acknowledged(broker_id, message.position, message.read_ms)
            case Goodbye():
                model.gone(broker_id, now_ms)
        one = led.image
        if one is not None and led.is_leading:
            model.sees(one, led.log(), now_ms)
            self._compare_sets(led, one)

    def _link_closed(self, link: ServedLink) -> None:
        host = current_process().host
        for (where, _, _), led in list(self._led.items()):
            known = led.hellos.get(link.live.peer_id)
            if where == host and known is not None and known[0] is link:
                led.model.gone(link.live.peer_id, led.now_ms)

    def _controller_answers(self, controller_id: int, answer: HeartbeatAnswer) -> None:
        host = current_process().host
        server = self._servers[host]
        key = (host, server.starts)
        newest = max(answer.controller_epoch, self._controller_epochs.get(key, -1))
        self._controller_epochs[key] = newest
        is_old = answer.controller_epoch < newest
        if answer.active_id != controller_id or is_old or answer.is_registration_wanted:
            return
        if answer.sent_ms == NO_HEARTBEAT:
            return
        node = server.node
        applied = -1 if node is None or not node.plane.is_open else node.plane.log.applied_index
        for (where, starts, _), led in self._led.items():
            one = led.image
            if (where, starts) == key and one is not None and not led.real.is_over:
                led.model.controller_answered(
                    one,
                    led.now_ms,
                    sent_ms=answer.sent_ms,
                    is_caught_up=applied >= answer.applied_index,
                    is_paused=led.is_paused,
                )

    # --- listening -----------------------------------------------------------------------------

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """Follow every mastership for as long as this lasts; one run at a time in a process."""
        with ExitStack() as stack:
            for owner, name, around in (
                (MasterSet, "__init__", self._made),
                (SyncStateKeeper, "next_change", self._judges),
                (MasterSet, "begin", self._begins),
                (MasterSet, "answered", self._answered),
                (LiveLink, "send", self._sends),
                (ServedLink, "_handle", self._handles),
                (ServedLink, "_on_closed", self._closed),
                (ControllerSession, "_on_message", self._told),
                (ControllerDriver, "submit", self._submits),
            ):
                stack.enter_context(patched(owner, name, around))
            yield

    def _made(self, real: Real, master_set: MasterSet, *args: Any, **named: Any) -> None:
        real(master_set, *args, **named)
        server = self._servers[current_process().host]
        led = Led(server, master_set)
        self._led[server.name, server.starts, led.set_id] = led
        self._judging[id(master_set.keeper)] = led

    def _judges(
        self, real: Real, keeper: SyncStateKeeper, *args: Any, **named: Any
    ) -> Change | None:
        led = self._judging.get(id(keeper))
        one = None if led is None or not led.is_leading else led.image
        if led is not None and one is not None:  # who stood still may write before the next look
            led.model.sees(one, led.log(), led.now_ms)
        change: Change | None = real(keeper, *args, **named)
        if change is not None and led is not None:
            self._asks(led, change)
        return change

    def _begins(self, real: Real, master_set: MasterSet) -> None:
        host, member = current_process().host, master_set.member
        led = self.of(host, member.replica_set_id)
        if led is not None:
            led.model.known, led.model.reached = member.confirm_position, 0
        if id(member) not in self._followed:
            self._followed[id(member)] = member
            member.on_confirmed.append(partial(self.confirmed, host))
            member.on_durable.append(partial(self._is_durable, host))
        real(master_set)

    def _is_durable(self, host: str, member: ReplicaSetMember) -> None:
        led, one = self._leading(host, member)
        if led is not None and one is not None:
            led.model.sees(one, led.log(), led.now_ms)

    def _answered(self, real: Real, master_set: MasterSet, outcome: object) -> None:
        led = self.of(current_process().host, master_set.member.replica_set_id)
        if led is not None and led.real is master_set:
            led.is_asking, led.quiet_ms = False, led.now_ms
        real(master_set, outcome)

    def _handles(self, real: Real, link: ServedLink, message: object) -> None:
        self._hears(link, message)
        real(link, message)

    def _sends(self, real: Real, live: LiveLink, message: object) -> None:
        if isinstance(message, Refused) and live.link.is_open:
            self._refuses(live, message)
        real(live, message)

    def _closed(self, real: Real, link: ServedLink, reason: str) -> None:
        self._link_closed(link)
        real(link, reason)

    def _told(self, real: Real, session: ControllerSession, message: object) -> None:
        if isinstance(message, HeartbeatAnswer):
            self._controller_answers(session.controller_id, message)
        real(session, message)

    async def _submits(
        self, real: Real, driver: ControllerDriver, command: Command[Any], **named: Any
    ) -> Any:
        """Beside the active controller its driver is asked, and no message is sent."""
        own_id = self._servers[current_process().host].host.process_id
        if not isinstance(command, ChangeSyncStateSet) or command.master != own_id:
            return await real(driver, command, **named)
        self._count(command, 1)
        try:
            return await real(driver, command, **named)
        except (RefusedCommand, MetadataQueueFull, NotActiveController):
            self._count(command, -1)
            raise


def _is_over(error: Exception) -> bool:
    """Whether what was answered so can not be recorded by that attempt any more."""
    return isinstance(error, RefusedCommand | MetadataQueueFull | NotActiveController)
