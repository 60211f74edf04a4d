"""The duties of the active controller: who lives, who leads, who is to lead next."""
