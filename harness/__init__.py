"""What tests, benchmarks and reliability share: processes, clients, bad requests, results.

It imports none of them. Clusters: `cluster` runs nodes as processes, `ha_cluster` runs replica sets
over real connections inside one process.
"""
