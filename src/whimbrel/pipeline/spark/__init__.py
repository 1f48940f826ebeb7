"""What the pipeline needs of Spark: a session, a Java, the library on executors, columns for Python workers."""
