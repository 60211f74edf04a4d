"""The remoting front: RocketMQ's 4.x and 5.x remoting clients; so far codec, mapping, routes."""
