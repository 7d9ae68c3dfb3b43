"""Reading in Spark: table and WAL tail as one, as a DataFrame or as the data source `lakestream`.

    options ─► place: where to begin and end ─► planning: ranges of offsets, cut into tasks
        tasks ─► rows: WAL or Parquet, wherever a range is when it is read ─► columns ─► Spark

Owns the union of table and tail (`union`) and the data source (`source`). What always holds: a task
carries offsets only and finds their bytes when it runs; every offset of a range is read once; one
that is missing is erased by a lawful change of the table, or the read stops loudly.
"""
