"""The index on disk that Spark jobs share: compile subscriptions to shards, publish versions, open them on workers."""
