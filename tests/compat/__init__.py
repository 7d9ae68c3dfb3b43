"""Real clients against real brokers: ours, and Apache Kafka as the oracle."""
