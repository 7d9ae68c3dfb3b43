"""History: any offset below the table end, read back from the table as a Kafka stream.

    broker: remote ─ socket ─ process: server ─► reader ─► plans ─► sections ─► blocks ─► batches

Owns the way from an offset to record batches. Planning and Parquet are the work of a process of its
own, with a low priority: a broker loads neither pyiceberg nor Arrow, and a replay takes no time of
its event loop. What always holds: reads are planned from the table's own metadata, so any engine
may rewrite its files; a plan and the ends it is judged by come from one metadata file; an offset is
skipped only below those ends; memory is bounded by one setting.
"""
