"""Starting and watching the nodes of a local cluster: `penstock up`."""
