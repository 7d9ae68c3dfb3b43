"""The log under simulated faults: real writer, reader, reclaim and SQL; simulated time and luck."""
