"""The hard state a member starts with: what it can know to be committed before any message.

Source: Raft paper 5.3: an entry is committed when a majority has it.
"""

from dataclasses import replace

from penstock.base.ids import PeerId
from penstock.raft.configuration import Configuration
from penstock.raft.entry import EntryKind
from penstock.raft.ids import DirectoryId, RaftIndex
from penstock.raft.ready import HardState
from penstock.runtime.raft.storage import Found


def agreed_state(found: Found, own_id: PeerId, directory_id: DirectoryId) -> HardState:
    """Return the hard state with the highest commit index that the files alone prove.

    A sole voter's durable entries are committed: no other member can overrule them.
    """
    configuration = found.snapshot.configuration
    for entry in found.entries:
        if entry.kind is EntryKind.CONFIGURATION:
            configuration = Configuration.decode(entry.payload)
    is_voter = configuration.is_voter(own_id, directory_id)
    if not is_voter or configuration.voter_ids != (own_id,):
        return found.state
    last_index = RaftIndex(found.snapshot.index + len(found.entries))
    return replace(found.state, commit_index=last_index)
