"""Messages of protobuf: a codec of declared fields, and those of apache.rocketmq.v2."""
