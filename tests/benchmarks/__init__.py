"""Figures beside their peers: `make bench`, or one of them with `make bench BENCH=append`."""
