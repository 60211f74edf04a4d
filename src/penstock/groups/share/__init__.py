"""Share groups (KIP-932): members share partitions, and nobody commits positions."""
