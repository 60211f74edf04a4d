"""Messages of apache.rocketmq.v2, declared for the codec of `protobuf`."""
