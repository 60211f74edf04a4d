"""Replay: records of an archive into a topic, exactly once.

    target.py     can the topic keep the records as they are?
    plan.py       from where to where, and which chunk comes next
    progress.py   how far it is: positions of a group, which are part of each transaction
    replaying.py  transactions, one behind another; pace.py: how many records in a second

Source: docs/adr/0164.
"""
