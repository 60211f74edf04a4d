"""The roles of a member (follower, candidate, leader), and what they share."""
