"""How fast the pipeline on Spark is: frozen works, the same query in plain Spark SQL beside it, tables and targets."""
