"""The blocking client of the platform, for the command line and Spark: no asyncio, no threads."""
