"""What the front keeps for those who operate a cluster (handlers/admin)."""
