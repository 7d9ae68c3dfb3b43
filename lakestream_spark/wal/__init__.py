"""WAL segments: one object that holds the batches of many partitions.

Owns the segment format (FORMAT.md), the states of a segment (`OpenSegment` -> `SealedSegment` ->
`StoredSegment`), the writer that moves batches through them, the reader and its cache, and reclaim.

What always holds
- a batch is answered only after its segment is stored whole and its commit is known;
- segments upload in parallel and commit in seal order;
- an object that nobody references is found and deleted, one that may still be committed never is.
"""
