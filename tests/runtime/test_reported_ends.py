"""What a member says of its log in an election is what it can not lose in the next power cut."""

from pathlib import Path

from harness.ha_cluster import ha_cluster
from tests.net.serving import run


def test_bytes_that_wait_for_their_sync_are_not_reported(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ha_cluster(tmp_path, 1, 2) as cluster:
            await cluster.make_set(1, 2)
            cluster[1].append(3)
            await cluster.confirmed(1)
            log = cluster[1].member().log
            durable = log.durable_position
            cluster[1].append(3)  # within this turn of the loop nothing can be synced
            assert log.durable_position == durable < log.end_position
            (report,) = cluster[1].manager.reports()
            assert report.log_end_position == durable
            await cluster.confirmed(1)
            (report,) = cluster[1].manager.reports()
            assert report.log_end_position == log.end_position

    run(scenario())
