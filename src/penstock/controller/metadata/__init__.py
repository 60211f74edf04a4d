"""The metadata as a log: records, their bytes, and the image that replay makes of them."""
