"""Scenarios as text: testdata/*.txt, each command followed by what it printed.

    PENSTOCK_REWRITE=1 python -m pytest tests/raft/test_scripts.py

writes anew what the commands print; read the difference before you commit it. A line that begins
with `#` is a comment, one that begins with `>` is output, all others are commands:

    group 1 2 3 [learners 4]     a group with these voters
    elect 1                      let 1 be the next leader
    propose PAYLOAD              let the leader take a proposal and settle
    propose-only PEER PAYLOAD    let PEER take it, deliver nothing
    tick [COUNT] [only PEER ...] let time pass and settle after each tick
    clock PEER [COUNT]           let time pass for one, deliver nothing
    settle                       deliver everything
    turn                         every member does its work once, all messages arrive; print them
    isolate PEER ... / heal      cut off / connect
    crash PEER / restart PEER    writes under way are lost
    lost PEER OTHER              PEER's connection to OTHER was closed
    compact PEER                 take a snapshot
    add PEER / remove PEER       membership, asked of the leader
    transfer PEER                leadership
    read CONTEXT                 a read, asked of the leader
    status                       one line per member
    reads PEER                   what reads were answered
"""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.base.ids import PeerId
from penstock.raft.errors import RaftError
from penstock.raft.messages import (
    AppendEntries,
    AppendResponse,
    InstallSnapshot,
    LearnerWelcome,
    Message,
    SnapshotResponse,
    VoteRequest,
    VoteResponse,
)
from penstock.raft.ready import Outgoing
from tests.raft.group import CONFIG, Group, address

SCRIPTS = sorted((Path(__file__).parent / "testdata").glob("*.txt"))
# No draw of chance and nothing kept behind snapshots, so that a script says everything.
SCRIPT_CONFIG = replace(CONFIG, compaction_keep_bytes=0, snapshot_chunk_bytes=64)


class Runner:
    """Runs the commands of one script."""

    def __init__(self) -> None:
        self.group = Group([1], config=SCRIPT_CONFIG)

    def run(self, line: str) -> list[str]:
        name, *words = line.split()
        command: Callable[..., list[str] | None] = getattr(self, "do_" + name.replace("-", "_"))
        try:
            return command(*words) or []
        except RaftError as error:
            return [f"{type(error).__name__}: {error}"]

    def do_group(self, *words: str) -> None:
        split = words.index("learners") if "learners" in words else len(words)
        voters, learners = map(int, words[:split]), map(int, words[split + 1 :])
        self.group = Group(list(voters), list(learners), config=SCRIPT_CONFIG)

    def do_elect(self, peer: str) -> list[str]:
        self.group.elect(int(peer))
        return self.do_status()

    def do_propose(self, payload: str) -> None:
        self.group.propose(payload.encode())

    def do_propose_only(self, peer: str, payload: str) -> None:
        self.group[int(peer)].propose(payload.encode())

    def do_tick(self, *words: str) -> None:
        split = words.index("only") if "only" in words else len(words)
        only = [int(word) for word in words[split + 1 :]] or None
        self.group.tick(int(words[0]) if split else 1, only=only)

    def do_clock(self, peer: str, count: str = "1") -> None:
        for _ in range(int(count)):
            self.group[int(peer)].tick()

    def do_settle(self) -> None:
        self.group.settle()

    def do_turn(self) -> list[str]:
        group = self.group
        for member in group.members.values():
            member.settle()
        wire, group.wire = group.wire, []
        arrived = [out for out in wire if (out[1].sender, out[0]) not in group.cut]
        for to, message in arrived:
            group.deliver(to, message)
        return [describe(Outgoing(PeerId(to), message)) for to, message in arrived]

    def do_isolate(self, *peers: str) -> None:
        self.group.isolate(*map(int, peers))

    def do_heal(self) -> None:
        self.group.heal()

    def do_crash(self, peer: str) -> None:
        self.group.crash(int(peer))

    def do_restart(self, peer: str) -> None:
        self.group.restart(int(peer))

    def do_lost(self, peer: str, other: str) -> None:
        self.group[int(peer)].peer_lost(PeerId(int(other)))

    def do_compact(self, peer: str) -> None:
        self.group.members[int(peer)].compact()

    def do_add(self, peer: str) -> None:
        self.group.leader.add_voter(PeerId(int(peer)), address(int(peer)))

    def do_remove(self, peer: str) -> None:
        self.group.leader.remove_voter(PeerId(int(peer)))

    def do_transfer(self, peer: str) -> None:
        self.group.leader.transfer(PeerId(int(peer)))

    def do_read(self, context: str) -> None:
        self.group.leader.read_index(int(context))

    def do_reads(self, peer: str) -> list[str]:
        return [f"{context} at {index}" for context, index in self.group.members[int(peer)].reads]

    def do_status(self) -> list[str]:
        return [
            f"{peer_id} {member.raft.role} term {member.raft.term} leader {member.raft.leader_id}"
            f" log {member.raft.first_index}..{member.raft.last_index}"
            f" commit {member.raft.commit_index}"
            f" voters {' '.join(map(str, member.raft.configuration.voter_ids))}"
            f" state {b' '.join(member.applied).decode() or '-'}"
            for peer_id, member in sorted(self.group.members.items())
        ]


def describe(out: Outgoing) -> str:
    """Return one line for a message."""
    message = out.message
    head = f"{message.sender}->{out.to} {type(message).__name__} term {message.term}"
    return f"{head} {_details(message)}".rstrip()


def _details(message: Message) -> str:  # noqa: PLR0911 - one line for each kind
    match message:
        case VoteRequest():
            kind = "pre-vote" if message.is_pre_vote else "vote"
            return f"{kind} last {message.last_term}.{message.last_index}"
        case VoteResponse():
            return "granted" if message.is_granted else "refused"
        case AppendEntries():
            new = " ".join(f"{e.term}.{e.index}" for e in message.entries) or "-"
            previous = f"{message.previous_term}.{message.previous_index}"
            return f"after {previous} entries {new} commit {message.commit_index}"
        case AppendResponse() if message.is_success:
            return f"match {message.match_index}"
        case AppendResponse():
            hint = f"{message.hint_term}.{message.hint_index}"
            return f"rejected {message.rejected_index} hint {hint}"
        case InstallSnapshot():
            end = message.position + len(message.data)
            name = f"{message.snapshot_term}.{message.snapshot_index}"
            return f"{name} bytes {message.position}..{end}{' last' if message.is_last else ''}"
        case SnapshotResponse():
            return f"{message.snapshot_index} bytes {message.position}"
        case LearnerWelcome():
            return f"leader {message.leader_id}"
        case _:
            return ""


def replay(text: str) -> str:
    """Return the script with what its commands print now."""
    runner, lines = Runner(), []
    for line in text.splitlines():
        if line.startswith(">"):
            continue
        lines.append(line)
        if line and not line.startswith("#"):
            lines.extend(f"> {printed}" for printed in runner.run(line))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_scenario_goes_as_it_is_written(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    now = replay(text)
    if os.environ.get("PENSTOCK_REWRITE"):
        path.write_text(now, encoding="utf-8")
        return
    assert now == text
