"""The open table of a topic: its columns, where it lies, and how files become part of it.

Owns everything that knows Iceberg. What always holds: each offset is in a snapshot at most once,
because an append names the ends it starts from and is refused when the table has others; only the
holder of a topic's lease moves them.
"""
