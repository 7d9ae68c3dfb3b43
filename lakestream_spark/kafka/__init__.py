"""The bytes of Kafka's record batches: header, checks, stamping; records and codecs.

Owns everything that knows the layout of a record batch (message format v2). Messages come from
kio. What always holds: a batch is changed only in the bytes outside its CRC (base offset, leader
epoch), except for append time, where it is summed again; every decompression has an output cap.
"""
