"""RocketMQ's gRPC clients of a run: over h2, an implementation of HTTP/2 that is not the node's.

link.py        one connection: calls, streams that stay open
client.py      routes, and calls of the service by the address of a node
producer.py    normal, by message group, delayed and recalled
transactor.py  transactions, decided at once, or when a node asks
consumer.py    simple and push consumers, of groups with and without order
stranger.py    calls that are refused
cast.py        all of them, and what must be true in the end
"""
