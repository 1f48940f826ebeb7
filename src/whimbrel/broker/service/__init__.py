"""The broker itself: what principals ask for, on the log, the store, the lists and the sequencer.

broker                                one data directory, opened, with the parts that work on it
opening                               opens a data directory, and brings every fold up to the end of the log
runtime                               the event loop, the queue of the sequencer, pools of threads
principal, tokens                     who makes a request, and what a token may do
subscriptions, subscription_registry  creates, replaces and ends subscriptions; the registry is the sequencer's view
pending                               what is decided and not in the store yet
publications, spaces                  publications and subject spaces, on behalf of principals
delivery, ephemeral_streams           pulls, acknowledgements, streams; streams of a filter
webhooks, sink_secrets                webhooks and their secrets, on behalf of principals
schema_service, schema_fold           reads and extends the schema
matches, spark_process                match lists that another engine brings, and the job on Spark as a child
quotas, disk_space                    limits of a principal, and of the disk
upkeep, retention, stamps             merges lists and saves the index; truncates the log, never beyond a fold
metrics                               what Prometheus reads
"""
