"""`whimbrel demo`: a web shop matched in this process, a stream of quotes on Spark, and a broker that is killed."""
