"""Verification: stream and table compared over a range of offsets, down to a short certificate.

    pin ─► seam ─► index ─► files ─► Delta ─► cells (all or a sample) ─► stream (a sample)

Owns what is compared and the sentences about what differs. What always holds: nothing is changed;
one state of metadata store and table is looked at, and a difference counts only while that state
stands; an offset without a row is explained by what was written down when it was committed or
erased, or it is a difference. Importable without pyspark: the full mode's job is in `spark`.
"""
