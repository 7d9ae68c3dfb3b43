"""A worked example from bronze to silver: the stream of orders, checked and typed. Copy it.

`orders` says what an order looks like and makes columns of its JSON, `rules` says what a good one
is, `gate` lets Great Expectations find the rows that break a rule, `tables` writes good and bad
rows, each offset once, `pipeline` is the batch that does all of it, and the stream around it.
"""
