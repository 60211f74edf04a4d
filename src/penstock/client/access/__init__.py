"""Who may come in, for operators: users of SCRAM, and delegation tokens."""
