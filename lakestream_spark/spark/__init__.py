"""Spark: plans, schedules, retries and commits the way from WAL segments to the table.

The only package that imports pyspark. What always holds: record bytes never pass through the JVM;
tasks turn WAL bytes into Parquet and only descriptions of files come back to the driver.
"""
