"""Rows into topics exactly once: transactions of tasks, ended by a recorded decision.

    task      writes its rows in a transaction of its own, and leaves it open ─► Written
    driver    records which transactions are the batch ─► decision, in the checkpoint
              ends them ─► how they ended, in the checkpoint
    restart   ends what a recorded decision has left, before any task runs

A transaction counts if, and only if, a recorded decision names it. `written.py` is the message of a
task, `checkpoint.py` where records are kept, `decisions.py` what they are, `ending.py` the requests
to brokers, `driver.py` the order of all this.

Source: ADR 0095.
"""
