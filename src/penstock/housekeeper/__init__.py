"""The housekeeper: long work on the files of logs, in a process beside the node, without I/O."""
