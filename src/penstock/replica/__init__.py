"""A member of a replica set in its roles: what a master does, what a slave does, without I/O.

`replica_set.py` is the member: its log, its role, and what waits for acknowledgements, which is in
`purgatory.py`. `master_set.py` is one mastership, with a `slave_session.py` for each slave;
`followed_set.py` is one mastership as its slave sees it. `wishes.py` names the roles that the
metadata gives; `mending.py` and `scrubber.py` find and repair damage. Links, tasks and the loop
that moves a member between roles are in runtime, which drives this room.
"""
