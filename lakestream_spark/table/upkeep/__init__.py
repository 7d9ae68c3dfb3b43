"""Upkeep of stream tables: merging, expiry, retention, orphans, manifests, Delta's log.

What always holds: upkeep never blocks a commit (whoever is second starts again from the newest
metadata), never changes a row, and deletes a file only after nothing has needed it for the grace
period. Each step decides by a pure function and then does it; each repeats safely. One maintainer
works on a topic, by the lease `maintain/<topic id>`.
"""
