"""Which change of the voters a leader takes on.

One voter at a time, and the next only after the last one is committed; never before the leader
committed an entry of its own term, or two leaders could each count a majority that shares nobody.

Source: Raft thesis 4.1, 4.2.1 (catching up first), 4.2.2 (removing the leader); the second rule is
the correction to the thesis in raft-dev, July 2015 ("bug in single-server membership changes").
"""

from collections.abc import Mapping

from penstock.raft.configuration import Configuration
from penstock.raft.core import Core
from penstock.raft.errors import ChangeRefused
from penstock.raft.progress import FeedState, Progress
from penstock.raft.quorum import majority_of


def with_voter(
    core: Core, peers: Mapping[int, Progress], peer_id: int, address: str
) -> Configuration:
    """Return the configuration with a new voter or address. Raises ChangeRefused."""
    _check_settled(core)
    known = core.configuration.addresses.get(peer_id)
    if known == address:
        raise ChangeRefused(f"peer {peer_id} votes already, at {address}")
    if known is None:
        _check_caught_up(core, peers.get(peer_id), peer_id)
    return core.configuration.with_voter(peer_id, address)


def without_voter(core: Core, peers: Mapping[int, Progress], peer_id: int) -> Configuration:
    """Return the configuration without a voter. Raises ChangeRefused."""
    _check_settled(core)
    if not core.configuration.has(peer_id):
        raise ChangeRefused(f"peer {peer_id} does not vote: {core.configuration.voter_ids} do")
    configuration = core.configuration.without_voter(peer_id)
    _check_majority_lives(core, peers, configuration)
    return configuration


def _check_settled(core: Core) -> None:
    log = core.log
    if log.configurations.latest_index > log.commit_index:
        raise ChangeRefused("another change of the voters is not committed yet: try again later")
    if log.term(log.commit_index) != core.term:
        raise ChangeRefused("the leader has only just been elected: try again in a moment")


def _check_caught_up(core: Core, progress: Progress | None, peer_id: int) -> None:
    if progress is None:
        raise ChangeRefused(
            f"peer {peer_id} is not connected as a learner: start it with the addresses of the"
            " voters, and add it when it has caught up"
        )
    lag = core.log.last_index - progress.match_index
    is_fed = progress.state is FeedState.REPLICATE
    if not is_fed or lag > core.config.learner_lag_entries_max:
        raise ChangeRefused(
            f"peer {peer_id} is {lag} entries behind: it can vote once it has caught up"
        )
    if core.ticks - progress.heard_tick >= core.config.election_ticks_max:
        raise ChangeRefused(f"peer {peer_id} was not heard lately: see that it runs")


def _check_majority_lives(
    core: Core, peers: Mapping[int, Progress], configuration: Configuration
) -> None:
    oldest = core.ticks - core.config.election_ticks_max
    alive = [
        voter
        for voter in configuration.voter_ids
        if voter == core.own_id or (voter in peers and peers[voter].heard_tick > oldest)
    ]
    if len(alive) < majority_of(len(configuration.voters)) or not alive:
        raise ChangeRefused(
            f"only {len(alive)} of the voters that would be left answer: the group would stop;"
            " start them first, or remove one that is down"
        )
