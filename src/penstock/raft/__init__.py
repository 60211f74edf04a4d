"""Raft: consensus about one log, without disk, network or clock.

`raft.Raft` is the door. A driver gives it ticks and messages and carries out what `ready()` asks
for; the order of its duties stands in raft.py. The rules are split by role and message behind it.

    raft.py               the door: tick, step, propose, ready, advance
    core.py               what all roles share: term, vote, log, configuration, outgoing messages
    roles/inbox.py        what every message goes through before a role sees it
    roles/follower.py     learners are followers that never campaign
    roles/candidate.py    pre-vote and vote
    roles/leader.py       with replication, rounds, transfer, members, readmission behind it
"""
