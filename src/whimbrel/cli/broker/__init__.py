"""The commands around a broker, one per file: serve, publish, subscribe, token, webhook, backup and others."""
