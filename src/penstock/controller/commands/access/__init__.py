"""Who may connect, and what clients may do and take: the commands, and what becomes of each."""
