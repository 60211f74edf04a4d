"""The controller: cluster metadata as a log of records, replayed into an image.

Reading order: metadata/records.py (what can happen), metadata/image.py (what it adds up to),
metadata/replay.py (how), then commands/ and controller.py (how a request becomes records),
replicated_log.py (who orders them), and active/ (what the active controller does unasked).
"""
