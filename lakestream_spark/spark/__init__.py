"""Spark: plans, schedules, retries and commits the way from WAL segments to the table, and back.

The only package that imports pyspark. What always holds: on their way into the table record bytes
never pass through the JVM; tasks turn WAL bytes into Parquet and only descriptions of files come
back to the driver. `reading` is the way back: table and tail as one.
"""
