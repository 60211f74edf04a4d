"""The side of a master: what is copied into the tier, cut, and deleted there."""
