"""Groups whose members go from the classic protocol to that of KIP-848, or back, while they run."""
