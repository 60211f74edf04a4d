"""TLS of clients' connections: handshakes, and records between the transport and a Connection."""
