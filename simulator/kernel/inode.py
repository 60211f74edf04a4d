"""One file of a simulated disk: the page cache, what is durable, and the changes between."""

from dataclasses import dataclass, field
from random import Random

from simulator.kernel.sectors import Change, Keep, apply_changes, random_keep, random_sectors

PENDING_MAX = 4096
"""Changes that a file may have in the page cache alone; then the oldest half is written back."""

_SIZE_ALONE = 0.3
"""How often a file that has lost its newest content keeps some of its new length, as zeros."""
_READS_OLD = 0.5
"""How often a failed sync shows at once in what is read."""


@dataclass(slots=True, eq=False)
class Inode:
    """See the module. It exists without a name while it is open."""

    path: str
    """The name that it had last."""
    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)
    """In order."""
    is_cold: bool = False
    """Not in the page cache until it is read."""
    is_linked: bool = False
    """Whether it has a name, and so takes up space."""

    def note(self, change: Change) -> None:
        """Take note of a change that is not durable yet."""
        self.pending.append(change)
        if len(self.pending) > PENDING_MAX:
            self.durable = apply_changes(self.durable, self.pending[: PENDING_MAX // 2])
            del self.pending[: PENDING_MAX // 2]

    def settle(self, keep: Keep | None = None) -> None:
        """Make the pending changes durable; where only some are kept, the others are lost."""
        self.durable = apply_changes(self.durable, self.pending, keep)
        self.pending.clear()

    def lose_power(self, rng: Random) -> None:
        """Lose any part of the pending changes, and the page cache."""
        self.settle(random_keep(rng, self.pending))
        missing = len(self.data) - len(self.durable)
        if missing > 0 and rng.random() < _SIZE_ALONE:
            self.durable.extend(bytes(rng.randint(0, missing)))
        self.data = bytearray(self.durable)
        self.is_cold = True

    def fail_sync(self, rng: Random) -> None:
        """Lose any sectors of what is dirty: the kernel takes it for clean from now on.

        What is read shows the new content, or at once the old one: file systems differ.
        """
        self.settle(random_sectors(rng, self.pending, has_sizes=True))
        self.durable.extend(bytes(len(self.data) - len(self.durable)))
        if rng.random() < _READS_OLD:
            self.data = bytearray(self.durable)

    def copy(self) -> "Inode":
        """Return one that changes apart from this one."""
        return Inode(
            self.path,
            bytearray(self.data),
            bytearray(self.durable),
            list(self.pending),
            self.is_cold,
            self.is_linked,
        )

    def become(self, other: "Inode") -> None:
        """Be as `other` is, which is not used any more."""
        self.path, self.data, self.durable = other.path, other.data, other.durable
        self.pending, self.is_cold = other.pending, other.is_cold
        self.is_linked = other.is_linked
