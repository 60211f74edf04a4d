"""What a member knows at its start to be agreed, before it has heard anybody.

Source: Raft paper 5.3: an entry is committed when a majority has it.
"""

from dataclasses import replace

from penstock.raft.configuration import Configuration
from penstock.raft.entry import EntryKind
from penstock.raft.ready import HardState
from penstock.runtime.raft.storage import Found


def agreed_state(found: Found, own_id: int, directory_id: str) -> HardState:
    """Return the hard state with all that is known to be agreed.

    What the only voter has on disk is agreed: nobody else can ever overrule it.
    """
    configuration = found.snapshot.configuration
    for entry in found.entries:
        if entry.kind is EntryKind.CONFIGURATION:
            configuration = Configuration.decode(entry.payload)
    is_voter = configuration.is_voter(own_id, directory_id)
    if not is_voter or configuration.voter_ids != (own_id,):
        return found.state
    return replace(found.state, commit_index=found.snapshot.index + len(found.entries))
