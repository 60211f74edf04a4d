"""Archives: a topic's history for years as Parquet files that DuckDB and Spark query in place.

    files.py      the bytes: a store of the tier's port, a directory or a bucket
    entries.py    what is written down of an archive, and when that is to be believed
    manifest.py   what the entries together say: which offsets lie in which file
    ledger.py     entries in the store, one after another, and snapshots of them
    copying.py    from a topic into chunks; sweeping.py: what runs that died have left
    chunks.py     a chunk's files written, and read back with every check
    pruning.py    what is older than the policy goes; verifying.py: every byte is looked at
    replay/       from an archive into a topic, in transactions

Source: docs/adr/0164, docs/formats/archive.md.
"""
