"""The environment of simulated processes: time, scheduling, hosts, networks, disks."""
