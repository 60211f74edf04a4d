"""The blocking client of the platform, for the command line, archives and Spark: no asyncio, no threads."""
