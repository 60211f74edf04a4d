"""How does Penstock compare with Apache Kafka and Apache RocketMQ on one machine, side by side?

`python -m benchmarks.peers` asks every row, `--rows produce-16k,consume-*` some of them. Start with
`rows` (what is asked and what is to be reached), then `probes` (the loads), `servers` (who is
asked), `rounds` (in which order), `ratios` (what becomes of it) and `store` (where it is kept).
"""

ROWS_OF_ALL = "produce-*,consume-hot,consume-hot-100,latency-5000,small-*"


def run(*, quick: bool) -> None:
    """Answer the question as part of `python -m benchmarks`: some rows; all of them take hours."""
    from benchmarks.peers.__main__ import main  # noqa: PLC0415  the command line is its interface

    main(["--rows", ROWS_OF_ALL, *(["--short", "--rounds", "3"] if quick else [])])
