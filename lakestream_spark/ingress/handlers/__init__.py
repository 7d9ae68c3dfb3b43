"""One module per Kafka API; each says at its head what it does, from which version to which."""
