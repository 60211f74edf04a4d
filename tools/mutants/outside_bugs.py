"""Planted bugs that no test of their room noticed when an outsider thought of them."""

from .mutant import Kind, plant
from .suites import CONTROLLER

REGISTERED = ("tests/controller/test_registration.py", *CONTROLLER)

MUTANTS = (
    plant(
        "unclean-epoch-not-of-async", "Election",
        "what an election under async may have lost is forgotten when the policy gets stricter",
        ("controller/commands/masterships.py",
         "(is_unclean or replica_set.policy.kind is PolicyKind.ASYNC)", "is_unclean"),
        kind=Kind.STALE, near=REGISTERED,
    ),
    plant(
        "transfer-resumed-by-an-earlier-one", "Leader epochs",
        "the late end of one transfer lets a master take writes while a later one is under way",
        ("broker/replica_set.py", "        if pause == self._pauses:\n",
         "        if pause <= self._pauses:\n"),
        kind=Kind.STALE, near=("tests/broker/test_replica_set_roles.py",),
    ),
    plant(
        "continuity-asked-at-every-opening", "Recovery",
        "a log that is opened again after a new mastership is called newer than the metadata",
        ("node/continuity.py", "self._leader_epochs.pop(place.replica_set_id, None)",
         "self._leader_epochs.get(place.replica_set_id)"),
        kind=Kind.CLEARED, near=("tests/node/test_continuity.py",),
    ),
)  # fmt: skip
