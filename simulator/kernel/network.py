"""In-memory TCP between named hosts, with network faults.

Each directed pair of hosts has a `Link` with latency, loss (a lost segment is sent again, so loss
is a delay that also holds up later segments) and cuts. Connections may overtake each other; bytes
of one connection stay in order.

During a cut bytes wait, since TCP sends them again. If the link heals in time they arrive;
otherwise the sender's kernel drops the connection, after TCP_USER_TIMEOUT if the program has set
it, else after GIVE_UP_S. The other end notices only when it sends something itself.

UDP, TLS and bandwidth are not simulated. The kernel's side of one connection is in sockets.py.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.base.errors import ConfigError
from simulator.kernel.listen_socket import ListenSocket
from simulator.kernel.ports import KernelLoop
from simulator.kernel.process import End, Process
from simulator.kernel.sockets import Address, SimSocket

LOOPBACK_S = (0.000_02, 0.000_1)

_RESEND_S = 0.2
_RESENDS_MAX = 6
"""A segment is lost so often in a row at most, each time twice as late: 12 s in all."""
_SYN_RESENDS_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
_FIRST_FREE_PORT = 40_000
_WHOLE_SHARE = 0.8
"""Of reads: take all that has arrived."""
_ABRUPT_SHARE = 0.5
"""Of a killed process's connections: reset; the others end behind what was sent."""
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(slots=True, kw_only=True)
class Link:
    """What happens to packets from one host to another."""

    latency_s: tuple[float, float] = (0.000_1, 0.001)
    """Least and most one-way time; drawn for each segment."""
    loss: float = 0.0
    """Share of segments that must be sent again, 0 to less than 1."""
    is_cut: bool = False
    """Nothing passes; connections live on until TCP gives up."""
    is_refusing: bool = False
    """New connections are refused at once, as a firewall's reject does."""


class Network:
    """The network of one run; `links` between hosts, faults, connections."""

    def __init__(self, loop: KernelLoop) -> None:
        self.loop = loop
        self.default_link = Link()
        """Copied for each pair of hosts as it is first used; change it before."""
        self.sockets: dict[SimSocket, None] = {}
        """Connected sockets that a kernel knows, oldest first."""
        self._draws = loop.random_for("network")
        self._links: dict[tuple[str, str], Link] = {}
        self._is_up: dict[str, bool] = {}
        self._names: dict[str, str] = {}
        self._listening: dict[Address, ListenSocket] = {}
        self._readable: dict[int, ListenSocket] = {}
        self._next_port: dict[str, int] = {}

    # --- hosts ---------------------------------------------------------------------------------

    def add_host(self, host: str, *names: str) -> None:
        """Make a host known, switched on, by its name and by others such as an IP address."""
        self._is_up.setdefault(host, True)
        for name in names:
            assert self._names.setdefault(name, host) == host, f"{name} names two hosts"

    def switch_on(self, host: str) -> None:
        """Give a host power; a new one is made."""
        self.add_host(host)
        self._is_up[host] = True

    def switch_off(self, host: str) -> None:
        """Take a host's power: it answers nothing any more."""
        self._is_up[host] = False

    def resolve(self, name: str, asking_host: str) -> str:
        """Return the host that a name or address means. Raises socket.gaierror."""
        if name in self._is_up:
            return name
        if name in _LOOPBACK_NAMES:
            return asking_host
        host = self._names.get(name)
        if host is None:
            raise socket.gaierror(socket.EAI_NONAME, f"no host is called {name}: add_host it")
        return host

    # --- links and faults ----------------------------------------------------------------------

    def link(self, source: str, target: str) -> Link:
        """Return the link from one host to another, to be changed at will."""
        found = self._links.get((source, target))
        if found is None:
            usual = self.default_link
            latency_s = LOOPBACK_S if source == target else usual.latency_s
            found = self._links[source, target] = Link(latency_s=latency_s, loss=usual.loss)
        return found

    def cut(self, source: str, target: str, *, both_ways: bool = True) -> None:
        """Let nothing pass from `source` to `target`, by default nor back."""
        self.loop.note("cut", source, target, both_ways)
        self.link(source, target).is_cut = True
        if both_ways:
            self.link(target, source).is_cut = True

    def mend(self, source: str, target: str, *, both_ways: bool = True) -> None:
        """Undo `cut`."""
        self.loop.note("mend", source, target, both_ways)
        self.link(source, target).is_cut = False
        if both_ways:
            self.link(target, source).is_cut = False

    def partition(self, *groups: Iterable[str]) -> None:
        """Cut every pair of hosts of different groups, both ways."""
        sides = [list(group) for group in groups]
        for number, side in enumerate(sides):
            for other in sides[number + 1 :]:
                for one in side:
                    for two in other:
                        self.cut(one, two)

    def heal(self) -> None:
        """Make all links whole: no cuts, no loss, no refusals, usual latency."""
        self.loop.note("heal")
        usual = self.default_link
        for (source, target), link in self._links.items():
            link.is_cut = link.is_refusing = False
            link.loss = usual.loss
            link.latency_s = LOOPBACK_S if source == target else usual.latency_s

    def set_links(
        self,
        hosts: Iterable[str],
        others: Iterable[str],
        *,
        latency_s: tuple[float, float] | None = None,
        loss: float | None = None,
    ) -> None:
        """Change all links between two groups of hosts, both ways."""
        hosts, others = list(hosts), list(others)
        self.loop.note("links", ",".join(hosts), ",".join(others), str(latency_s), loss)
        for host in hosts:
            for two in others:
                for link in (self.link(host, two), self.link(two, host)) if host != two else ():
                    link.latency_s = link.latency_s if latency_s is None else latency_s
                    link.loss = link.loss if loss is None else loss

    def reset(self, source: str, target: str, share: float = 1.0) -> int:
        """Reset open connections between two hosts, each with that probability; returns how many.

        Both ends get ConnectionResetError.
        """
        count = 0
        for end in self._between(source, target):
            if end.is_known and self._draws.random() < share:
                count += 1
                other = end.peer
                end.fail(ConnectionResetError(errno.ECONNRESET, "connection reset"))
                other.fail(ConnectionResetError(errno.ECONNRESET, "connection reset"))
        self.loop.note("reset", source, target, count)
        return count

    def connections(self, source: str = "", target: str = "") -> int:
        """Count open connections, of all hosts or between two."""
        return len(self._between(source, target) if source else list(self.sockets)) // 2

    def _between(self, source: str, target: str) -> list[SimSocket]:
        pairs = ((source, target), (target, source))
        return [end for end in self.sockets if (end.host, end.peer.host) in pairs]

    # --- packets -------------------------------------------------------------------------------

    def passes(self, source: str, target: str) -> bool:
        """Whether a packet would arrive now."""
        return self._is_up[source] and self._is_up[target] and not self.link(source, target).is_cut

    def delay_s(self, source: str, target: str) -> float:
        """Draw how long a segment takes, times of sending it again included."""
        link = self.link(source, target)
        least, most = link.latency_s
        draw = self._draws.random
        delay = least + (most - least) * draw()
        if link.loss:
            resends = 0
            while resends < _RESENDS_MAX and draw() < link.loss:
                delay += _RESEND_S * 2**resends
                resends += 1
        return delay

    def chunk(self, available: int) -> int:
        """Draw how many of the bytes that have arrived one read takes: mostly all."""
        draws = self._draws
        if available < 2 or draws.random() < _WHOLE_SHARE:
            return available
        return draws.randrange(1, available)

    # --- listening and connecting --------------------------------------------------------------

    def listen(self, process: Process, host: str, port: int) -> ListenSocket:
        """Open a port of the process's host; 0 takes a free one. Raises ConfigError."""
        if host not in ("", "0.0.0.0", "::") and (  # noqa: S104  a simulated address
            self.resolve(host, process.host) != process.host
        ):
            raise ConfigError(f"can not listen on {host}:{port}: it is no address of this host")
        address = Address(process.host, port or self._free_port(process.host))
        if address in self._listening:
            text = os.strerror(errno.EADDRINUSE)
            raise ConfigError(f"can not listen on {host}:{port}: {text}; choose another port")
        opened = ListenSocket(self, process, address)
        self._listening[address] = self._readable[opened.fileno()] = opened
        return opened

    def listener_of(self, descriptor: int) -> ListenSocket:
        """Return the listening socket with that number. Raises ValueError for any other."""
        found = self._readable.get(descriptor)
        if found is None:
            raise ValueError(f"descriptor {descriptor} is no listening socket of this simulation")
        return found

    def forget_listener(self, opened: ListenSocket) -> None:
        """The port is closed."""
        self._listening.pop(opened.address, None)
        self._readable.pop(opened.fileno(), None)

    def _free_port(self, host: str) -> int:
        port = self._next_port.get(host, _FIRST_FREE_PORT)
        while Address(host, port) in self._listening:
            port += 1
        self._next_port[host] = port + 1
        return port

    async def connect(self, process: Process, name: str, port: int) -> SimSocket:
        """Return a connected socket. Raises ConnectionRefusedError, TimeoutError, gaierror.

        Nothing answers while the way there or back is cut or the host is off: packets to open the
        connection are sent again for a minute.
        """
        host = process.host
        target = Address(self.resolve(name, host), port)
        for wait_s in _SYN_RESENDS_S:
            await asyncio.sleep(self.delay_s(host, target.host))
            if not self.passes(host, target.host):
                await asyncio.sleep(wait_s)
                continue
            listening = self._listening.get(target)
            is_refused = listening is None or self.link(host, target.host).is_refusing
            await asyncio.sleep(self.delay_s(target.host, host))
            if not self.passes(target.host, host):
                await asyncio.sleep(wait_s)
                continue
            if is_refused or listening is None or not listening.is_open:
                raise ConnectionRefusedError(errno.ECONNREFUSED, f"{name}:{port} refuses")
            if listening.has_room:
                return self._join(process, listening)
            await asyncio.sleep(wait_s)
        raise TimeoutError(errno.ETIMEDOUT, f"{name}:{port} does not answer")

    def _join(self, process: Process, listening: ListenSocket) -> SimSocket:
        own_address = Address(process.host, self._free_port(process.host))
        own = SimSocket(self, process, own_address)
        other = SimSocket(self, listening.process, listening.address)
        own.join(other)
        self.sockets[own] = self.sockets[other] = None
        listening.queue(other)
        return own

    # --- ends ----------------------------------------------------------------------------------

    def process_ended(self, process: Process, end: End) -> None:
        """Close what the process has open, as its kernel does; or not even that, without power.

        A kill resets some of its connections, as happens when a container's network goes with it.
        """
        for opened in [each for each in self._listening.values() if each.process is process]:
            opened.close()
        for own in [each for each in self.sockets if each.process is process]:
            if end is End.POWERED_OFF:
                own.vanish()
            else:
                own.close(is_abrupt=end is End.KILLED and self._is_abrupt())

    def _is_abrupt(self) -> bool:
        return self._draws.random() < _ABRUPT_SHARE

    def dispose(self) -> None:
        """Drop all state; sockets that are still referenced have no effect any more."""
        for end in list(self.sockets):
            end.vanish()
        self._listening.clear()
        self._readable.clear()
