"""Commands that run on Spark, one per file; the jobs that they start are in `whimbrel.pipeline.jobs`."""
