"""Which changes of the voters a leader accepts.

One voter at a time, and the next only after the last change is committed; never before the leader
has committed an entry of its own term, or two leaders could count majorities without a common
member.

Source: Raft thesis 4.1, 4.2.1 (catching up first), 4.2.2 (removing the leader); the second rule is
the correction to the thesis in raft-dev, July 2015 ("bug in single-server membership changes").
"""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.base.ids import PeerId
from penstock.raft.configuration import Configuration
from penstock.raft.core import Core
from penstock.raft.errors import ChangeRefused
from penstock.raft.ids import NO_DIRECTORY, DirectoryId
from penstock.raft.quorum import majority_of
from penstock.raft.roles.progress import FeedState, Progress
from penstock.raft.roles.replication import Replicator


class NewVoter(NamedTuple):
    """The peer that becomes a voter."""

    peer_id: PeerId
    address: str
    directory_id: DirectoryId | None = None
    """The directory that it votes with; None: the one that it runs with."""


def with_voter(core: Core, peers: Mapping[PeerId, Progress], voter: NewVoter) -> Configuration:
    """Return the configuration with a new voter or address. Raises ChangeRefused."""
    _check_settled(core)
    peer_id, address, wanted = voter
    configuration, progress = core.configuration, peers.get(peer_id)
    running = NO_DIRECTORY if progress is None else progress.directory_id
    if peer_id == core.own_id:
        running = core.own_directory
    if configuration.has(peer_id):
        known = configuration.directory_of(peer_id)
        if running != known or wanted not in {None, known}:
            raise ChangeRefused(
                f"peer {peer_id} votes with directory {_text(known)} and runs with"
                f" {_text(running)}: remove it, then add it again"
            )
        if configuration.addresses[peer_id] == address:
            raise ChangeRefused(f"peer {peer_id} votes already, at {address}")
        return configuration.with_voter(peer_id, address, known)
    _check_caught_up(core, progress, peer_id)
    if wanted not in {None, running}:
        raise ChangeRefused(f"peer {peer_id} runs with directory {_text(running)}, not {wanted}")
    return configuration.with_voter(peer_id, address, running)


def without_voter(
    core: Core, replicator: Replicator, peer_id: PeerId, directory_id: DirectoryId | None = None
) -> Configuration:
    """Return the configuration without a voter or its vacant seat. Raises ChangeRefused."""
    _check_settled(core)
    configuration = core.configuration
    if not configuration.has(peer_id) and peer_id not in dict(configuration.vacant):
        voters = ", ".join(map(str, configuration.voter_ids))
        raise ChangeRefused(f"peer {peer_id} does not vote; voters are {voters}")
    known = configuration.directory_of(peer_id)
    if directory_id not in {None, known}:
        raise ChangeRefused(
            f"peer {peer_id} votes with directory {_text(known)}, not {directory_id}"
        )
    smaller = configuration.without_voter(peer_id)
    _check_majority_lives(core, replicator, smaller)
    return smaller


def with_vacancy(core: Core, replicator: Replicator, peer_id: PeerId) -> Configuration:
    """Return the configuration in which a voter's seat is vacant, until its new directory has
    caught up. Raises ChangeRefused.
    """
    _check_settled(core)
    _check_caught_up(core, replicator.peers.get(peer_id), peer_id)
    configuration = core.configuration.with_vacancy(peer_id)
    _check_majority_lives(core, replicator, configuration)
    return configuration


def _text(directory_id: DirectoryId) -> str:
    return directory_id or "(none)"


def _check_settled(core: Core) -> None:
    log = core.log
    if log.configurations.latest_index > log.commit_index:
        raise ChangeRefused("another change of the voters is not committed yet: try again later")
    if log.term(log.commit_index) != core.term:
        raise ChangeRefused("the leader has only just been elected: try again in a moment")


def _check_caught_up(core: Core, progress: Progress | None, peer_id: PeerId) -> None:
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


def _check_majority_lives(core: Core, replicator: Replicator, configuration: Configuration) -> None:
    oldest = core.ticks - core.config.election_ticks_max
    alive = [
        voter
        for voter in configuration.voter_ids
        if voter == core.own_id
        or ((peer := replicator.counted(voter)) is not None and peer.heard_tick > oldest)
    ]
    if len(alive) < majority_of(len(configuration.voters)) or not alive:
        raise ChangeRefused(
            f"only {len(alive)} of the voters that would be left answer: the group would stop;"
            " start them first, or remove one that is down"
        )
