"""The commands around a broker: serve, publish, subscribe, token, webhook."""
