"""The blocking client of the platform, for command line, archives and Spark: no asyncio."""
