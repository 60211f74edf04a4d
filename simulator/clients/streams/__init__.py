"""An application of Kafka Streams: members of a streams group, and who describes it.

topology.py     what the application is made of
member.py       one process: heartbeats, tasks
application.py  all of them, and what must be true in the end
"""
