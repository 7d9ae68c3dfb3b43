"""SQL over topics, by DuckDB: each topic is a view of its table and of what is not in it yet.

    the query ─► which topics it names (`references`) ─► the moment of each ─► a view of two halves
                                                         ├─► Parquet files of the pinned snapshot,
                                                         │   read by DuckDB (`table_half`)
                                                         └─► the tail, decoded by us into a table

What always holds: an answer has every record that was acknowledged when it was asked for, each
once; what the query does not name is not opened; nothing is downloaded and nothing is changed.
"""
