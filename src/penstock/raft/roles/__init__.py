"""What a member does in each role: candidate, follower, leader; and what roles share."""
