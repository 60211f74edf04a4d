"""The blocking client, for the command line, archives and Spark: no asyncio, no threads."""
