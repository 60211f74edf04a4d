"""What the coordinator counts; plain numbers, read when metrics are collected.

Source: Kafka `TransactionCoordinator` metrics (`transaction-coordinator-metrics`).
"""

from dataclasses import dataclass

from penstock.transactions.state import TransactionState


@dataclass(slots=True)
class TransactionCounters:
    """Counts since the start of the coordinator."""

    committed: int = 0
    aborted: int = 0
    timed_out: int = 0
    """Of those aborted: because they were open for too long."""

    def note(self, state: TransactionState) -> None:
        """Count a confirmed decision."""
        self.committed += state is TransactionState.PREPARE_COMMIT
        self.aborted += state is TransactionState.PREPARE_ABORT
