"""Who is to have which partitions: assignors of groups, without groups."""
