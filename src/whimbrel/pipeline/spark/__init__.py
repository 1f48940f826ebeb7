"""What the pipeline needs of Spark itself: a session, a Java, the library on executors, columns for Python workers."""
