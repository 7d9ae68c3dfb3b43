"""Records <-> Arrow: compiled kernels around which nothing but arrays is passed.

Owns the way from record batches to columns (`decode`) and back (`encode`). What always holds: the
rows, and the reason why a batch is refused, are those of `kafka.records`, which is the reference;
no byte outside what the caller handed over is read, whatever a batch says.
"""
