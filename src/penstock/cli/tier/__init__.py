"""`penstock tier`: the object store of a cluster."""
