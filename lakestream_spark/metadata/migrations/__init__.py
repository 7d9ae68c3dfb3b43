"""Revisions of the metadata schema, in `versions/`, written as Alembic operations.

A revision is rendered to SQL and run by the store's own transaction, so it must not read rows in
Python: move data with `INSERT … SELECT` and `UPDATE`. Revisions that were released never change.
"""
