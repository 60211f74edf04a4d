"""Share groups: members, those who start them, and what they judge by.

member.py     what a member asks and takes, without a connection; real processes use it too
sharer.py     a member of the simulator
sharers.py    all of a run
"""
