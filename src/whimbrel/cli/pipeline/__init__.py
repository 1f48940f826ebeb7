"""Commands that run the pipeline on Spark."""
