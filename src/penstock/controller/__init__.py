"""The controller: cluster metadata as a log of records, replayed into an image.

Reading order: `records` (what can happen), `image` (what it adds up to), `replay` (how), then
`commands` and `controller` (how a request becomes records), `replicated_log` (who orders them).
"""
