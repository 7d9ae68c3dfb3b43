"""History: any offset below the table end, read back from the table as a Kafka stream.

Owns the way from an offset to record batches. What always holds: reads are planned from the table's
own metadata, so any engine may rewrite its files; a plan and the ends it is judged by come from one
metadata file; an offset is skipped only below those ends.
"""
