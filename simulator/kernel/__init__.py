"""What a simulated process stands on: time and order, processes, hosts and networks, disks."""
