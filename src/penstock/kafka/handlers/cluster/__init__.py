"""APIs of the cluster: brokers, topics and their configuration, and changes of them."""
