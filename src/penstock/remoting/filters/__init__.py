"""Which messages a consumer wants, by SQL-92 expressions over their properties."""
