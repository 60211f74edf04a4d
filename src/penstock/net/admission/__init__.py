"""Who is let in at the ports for clients, who waits, and who gives its place to others."""
