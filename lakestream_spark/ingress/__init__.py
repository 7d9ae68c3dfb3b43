"""The Kafka listener of a broker: frames, requests, answers in order, one module per API.

Owns connections and nothing that outlives them: any broker serves any partition. What always
holds: answers leave in the order of their requests, a bad partition is a value in the answer, and
a connection that breaks the protocol is closed without touching the others.
"""
