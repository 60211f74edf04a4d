"""Who may come in, and do what: secrets and tokens of a client; users and rules for operators."""
