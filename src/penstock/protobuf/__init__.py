"""Messages of protobuf: bytes, and a codec of declared fields that reads within bounds."""
