"""A log that is being opened anew, after a truncation, takes nothing until it is open again."""

import pytest

from penstock.storage.errors import LogBusy
from tests.storage.replicas import frames_of, give_run, member, take_run


def test_who_was_told_that_the_log_is_busy_hears_when_it_takes_runs_again():
    # A slave keeps what arrives meanwhile, and would wait for ever: nothing else calls it.
    world, disk, log, _ = member(20)
    position = sorted(frames_of(disk, log))[10]
    run = take_run(world, log, position)
    ready: list[bool] = []
    log.on_append_ready = lambda: ready.append(log.is_busy)
    log.truncate(position, lambda _: None)
    with pytest.raises(LogBusy):
        log.append_run(run)
    assert ready == []
    world.run()
    assert ready == [False]
    give_run(world, log, run)
