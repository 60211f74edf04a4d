"""The judges of RocketMQ's remoting clients: one for each kind of message, over what they noted.

    sends      what is sent is there once, at its place, and never before its time
    halves     a transaction is decided once, and seen or not as it was decided
    pops       what is acknowledged never comes again; what is given up is a dead letter
    returns    what is sent back comes again after its delay, or is a dead letter
    pulls      the same records as Kafka's readers see; a position never goes back

What is in the topics in the end is read by a Kafka client, so that each judge compares the two.
"""
