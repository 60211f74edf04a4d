"""The front for RocketMQ's gRPC clients: HTTP/2, gRPC and the service apache.rocketmq.v2."""
