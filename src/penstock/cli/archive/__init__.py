"""Commands of archives, and the replay of them."""
