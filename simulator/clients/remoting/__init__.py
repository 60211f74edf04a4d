"""RocketMQ's remoting clients of a run: producers, of transactions too, poppers, a puller.

link        one connection: answers by number, and requests of the broker
client      routes, and a link to the master of each replica set
cast        who takes part, and what must be true in the end
"""
