def put_batch_frame(
    view: memoryview,
    at: int,
    batch: memoryview,
    key: bytes,
    leader_epoch: int,
    position: int,
    unflushed: int,
    base_offset: int,
) -> None: ...
