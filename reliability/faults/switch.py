"""A network switch of our own: frames of TAP devices, each in a namespace, with seeded faults.

`python -m reliability.faults.switch SEED NAMESPACE...` ('.' is the namespace it is started in).
Port n has the MAC address 02:00:00:00:00:n, so nothing is learnt and nothing is flooded. A link is
an ordered pair of ports: each direction has rules of its own. Commands are lines of JSON on the
standard input: a list of [from, to, {"loss": p, "delay": s, "jitter": s}] replaces all rules, null
replaces none; the answer is one line, how many frames those before have dropped or held up.

Why not the kernel: it has no netem here, and no random delay besides it. Deliberately not here:
bandwidth, duplicates and corruption, which TCP hides from the processes above it anyway.
"""

import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import struct
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.cli.exit_codes import end_with

TAP = "tap0"
MTU = 9000
HELD_FRAMES_MAX = 50_000
"""Beyond this a slow link drops what comes, as a queue of a real one does."""
NAMESPACES = Path("/run/netns")
_TUNSETIFF = 0x400454CA
_IFF_TAP_NO_PI = 0x0002 | 0x1000
_FRAMES_AT_ONCE = 64
_HEADER_BYTES = 14


def mac_of(port: int) -> str:
    """Return the address of a port."""
    return f"02:00:00:00:00:{port:02x}"


@dataclass(slots=True)
class Rule:
    """What happens to the frames of one direction of one link."""

    loss: float = 0.0
    delay: float = 0.0
    jitter: float = 0.0
    """Seconds; up to so much is added to `delay`, so frames may overtake each other."""
    struck: int = 0
    """Frames that were dropped or held up."""


@dataclass(slots=True)
class Switch:
    """The ports, by number, and the rules between them."""

    handles: list[int]
    chooser: random.Random
    rules: dict[int, Rule] = field(default_factory=dict)
    """By from << 8 | to."""
    held: list[tuple[float, int, int, bytes]] = field(default_factory=list)
    _held_ever: int = 0

    def obey(self, lines: list[tuple[int, int, dict[str, Any]]] | None) -> int:
        """Replace all rules, with None none; returns the frames that those before have struck."""
        struck = sum(rule.struck for rule in self.rules.values())
        if lines is not None:
            self.rules = {source << 8 | target: Rule(**rule) for source, target, rule in lines}
        return struck

    def take(self, source: int) -> None:
        """Pass on what has come in at a port."""
        handle = self.handles[source]
        for _ in range(_FRAMES_AT_ONCE):
            try:
                frame = os.read(handle, MTU + _HEADER_BYTES + 4)
            except BlockingIOError:
                return
            target = frame[5]
            if frame[0] != 2 or target >= len(self.handles):
                continue  # to everybody, or to nobody here
            rule = self.rules.get(source << 8 | target)
            if rule is None:
                self.put(target, frame)
            else:
                self._put_by(rule, target, frame)

    def _put_by(self, rule: Rule, target: int, frame: bytes) -> None:
        if rule.loss and self.chooser.random() < rule.loss:
            rule.struck += 1
        elif rule.delay or rule.jitter:
            rule.struck += 1
            if len(self.held) < HELD_FRAMES_MAX:
                self._held_ever += 1
                due = time.monotonic() + rule.delay + self.chooser.random() * rule.jitter
                heapq.heappush(self.held, (due, self._held_ever, target, frame))
        else:
            self.put(target, frame)

    def put(self, target: int, frame: bytes) -> None:
        """Send a frame out at a port; one that is full or down loses it."""
        try:
            os.write(self.handles[target], frame)
        except OSError:
            return

    def put_due(self) -> float:
        """Send what was held long enough; returns the seconds until the next is due."""
        held = self.held
        while held:
            wait = held[0][0] - time.monotonic()
            if wait > 0:
                return wait
            _, _, target, frame = heapq.heappop(held)
            self.put(target, frame)
        return 1.0

    def run(self) -> None:
        """Pass frames on until the standard input ends."""
        poll = select.epoll()
        ports = {handle: port for port, handle in enumerate(self.handles)}
        for handle in (*ports, sys.stdin.fileno()):
            poll.register(handle, select.EPOLLIN)
        print("ready", flush=True)
        while True:
            for handle, _ in poll.poll(self.put_due()):
                if handle in ports:
                    self.take(ports[handle])
                    continue
                line = sys.stdin.readline()
                if not line:
                    return
                print(self.obey(json.loads(line)), flush=True)


def open_tap(namespace: str) -> int:
    """Return a handle of a new TAP device in a namespace; it goes away with the handle."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        if namespace != ".":
            _enter(libc, NAMESPACES / namespace)
        handle = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(handle, _TUNSETIFF, struct.pack("16sH22x", TAP.encode(), _IFF_TAP_NO_PI))
        return handle
    finally:
        if libc.setns(own, 0):
            raise OSError(ctypes.get_errno(), "can not go back to the own namespace")
        os.close(own)


def _enter(libc: ctypes.CDLL, path: Path) -> None:
    other = os.open(path, os.O_RDONLY)
    try:
        if libc.setns(other, 0):
            raise OSError(ctypes.get_errno(), f"can not enter {path}")
    finally:
        os.close(other)


def main() -> None:
    """Open the ports and run."""
    seed, *namespaces = sys.argv[1:]
    handles = [open_tap(namespace) for namespace in namespaces]
    Switch(handles, random.Random(seed)).run()


if __name__ == "__main__":
    end_with(main)
