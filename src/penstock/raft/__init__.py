"""Raft: consensus about one log, without disk, network or clock.

`raft.Raft` is the public interface. A driver gives it ticks and messages and carries out what
`ready()` asks for; raft.py lists its duties in order. The rules are split by role and message.

    raft.py               the interface: tick, step, propose, ready, advance
    messages.py           what peers say to each other;  entry.py: what the log consists of
    ready.py              what the driver is asked to do
    ids.py                the types of terms and indexes
    core.py               what all roles share: term, vote, log, configuration, outgoing messages
    log.py                entries in memory; history.py: the configurations among them
    configuration.py      who votes;  quorum.py: how majorities are counted
    founding.py           how the first voters form a group;  learners.py: who only gets the log
    roles/inbox.py        what every message goes through before a role sees it
    roles/follower.py     learners are followers that never campaign
    roles/candidate.py    pre-vote and vote
    roles/leader.py       uses replication, rounds, transfer, members and readmission beside it
"""
