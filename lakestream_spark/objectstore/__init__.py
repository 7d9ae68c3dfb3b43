"""Object stores by URL: a folder, S3, Google Cloud Storage, Azure, memory.

Owns the port (`store.ObjectStore`), its implementations, opening one by URL (`open.open_store`),
retrying (`retrying.Retrying`) and every object key (`keys`).

What always holds
- an object is written once, whole and durable before `put` returns, and never replaced;
- a torn upload is never visible;
- every failure is an error of `core.errors` that says what the caller does.
"""
