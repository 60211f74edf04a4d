"""`make demo`: the main job of Penstock on real input, while everything gets killed.

    files under /usr (or INPUT) -> stock librdkafka producer -> node -> Spark -> Delta table

The node is killed with -9 in mid-stream, then the whole Spark job. At the end every record is
followed by its own number from the input to the table: source.py reads the input, stream.py sends
it, cluster.py and landing.py run the processes, check.py does the arithmetic, report.py shows it,
main.py is the story in order.
"""
