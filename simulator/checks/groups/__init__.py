"""What coordinators of groups answer, keep and write, said a second time."""
