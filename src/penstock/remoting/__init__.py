"""The front for RocketMQ's remoting clients (4.x, 5.x): producers, pull and push consumers."""
