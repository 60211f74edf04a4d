"""Raft: consensus about one log, without disk, network or clock.

`raft.Raft` is the public interface. A driver gives it ticks and messages and carries out what
`ready()` asks for; raft.py lists its duties in order. The rules are split by role and message.

    raft.py               the interface: tick, step, propose, ready, advance
    ids.py                the types of terms and indexes
    core.py               what all roles share: term, vote, log, configuration, outgoing messages
    roles/inbox.py        what every message goes through before a role sees it
    roles/follower.py     learners are followers that never campaign
    roles/candidate.py    pre-vote and vote
    roles/leader.py       uses replication, rounds, transfer, members and readmission
"""
