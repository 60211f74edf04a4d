"""Hosts of their own on one machine: network namespaces behind a switch whose links can break.

Meant to be used inside `chaos_world`, whose namespaces take everything away with the last process.
The one who makes the hosts is one too, at port 0: clients live there and reach every host. The
neighbours are written down beforehand, so that nobody has to ask for them while frames are lost.
"""

import json
import select
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType

from harness.node import Place
from reliability.faults.switch import MTU, TAP, mac_of

READY_SECONDS = 60.0
CONGESTION_CONTROL = "reno"
"""What every kernel lets a namespace have; some others mind no loss."""
Rules = Mapping[tuple[int, int], Mapping[str, float]]
"""By (from, to), as the switch wants them: loss, delay, jitter."""


def address_of(port: int) -> str:
    """Return the IP address of a port of the switch."""
    return f"10.77.0.{port or 254}"


class Hosts:
    """Hosts by name, at ports from 1 on; `with` makes them and takes them away."""

    def __init__(self, names: Collection[str], *, seed: int | str) -> None:
        self.port_of = {name: port for port, name in enumerate(names, 1)}
        self._seed = str(seed)
        self._switch: subprocess.Popen[str] | None = None

    def place(self, name: str, environment: Mapping[str, str] | None = None) -> Place:
        """Return where processes of a host run."""
        prefix = ("nsenter", f"--net=/run/netns/{name}", "--")
        return Place(address_of(self.port_of[name]), prefix, environment or {})

    def set_rules(self, rules: Rules) -> None:
        """Replace what the links do."""
        self._tell([[*link, dict(rule)] for link, rule in rules.items()])

    def struck(self) -> int:
        """Return how many frames the rules have dropped or held up so far."""
        return self._tell(None)

    def _tell(self, command: object) -> int:
        assert self._switch is not None, "the hosts are not there"
        assert self._switch.stdin is not None
        self._switch.stdin.write(json.dumps(command) + "\n")
        self._switch.stdin.flush()
        return int(self._answer())

    def reset_connections(self, name: str) -> int:
        """Reset every TCP connection that a host has with others; returns how many there were."""
        command = (*self.place(name).prefix, "ss", "-K", "-t", "-H", "state", "established")
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=10)
        return len(done.stdout.splitlines())

    def __enter__(self) -> "Hosts":
        try:
            for name in self.port_of:
                _run("ip", "netns", "add", name)
            self._start_switch()
            self._set_up(".", 0)
            for name, port in self.port_of.items():
                self._set_up(name, port)
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """End the switch and take the hosts away; processes in them are somebody else's."""
        if self._switch is not None:
            self._switch.kill()
            self._switch.communicate()
            self._switch = None
        for name in self.port_of:
            if Path("/run/netns", name).exists():
                _run("ip", "netns", "del", name)

    def _start_switch(self) -> None:
        self._switch = subprocess.Popen(
            [sys.executable, "-m", "reliability.faults.switch", self._seed, ".", *self.port_of],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self._answer() != "ready\n":
            raise OSError("the switch does not start")

    def _answer(self) -> str:
        assert self._switch is not None
        assert self._switch.stdout is not None
        if not select.select([self._switch.stdout], [], [], READY_SECONDS)[0]:
            raise OSError(f"the switch says nothing for {READY_SECONDS} s")
        return self._switch.stdout.readline()

    def _set_up(self, name: str, port: int) -> None:
        """Give the device of a host its addresses."""
        inside = () if name == "." else self.place(name).prefix
        others = [other for other in (0, *self.port_of.values()) if other != port]
        lines = [
            "link set lo up",
            f"link set {TAP} address {mac_of(port)} mtu {MTU} up",
            f"addr add {address_of(port)}/24 dev {TAP}",
            *(
                f"neigh replace {address_of(other)} lladdr {mac_of(other)} dev {TAP} nud permanent"
                for other in others
            ),
        ]
        _run(*inside, "ip", "-batch", "-", given="\n".join(lines))
        _run(*inside, "sysctl", "-q", "-w", f"net.ipv4.tcp_congestion_control={CONGESTION_CONTROL}")


def _run(*command: str, given: str = "") -> str:
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=30, check=False
    )
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
