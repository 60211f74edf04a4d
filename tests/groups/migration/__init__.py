"""Groups that go from one protocol to the other while they run."""
