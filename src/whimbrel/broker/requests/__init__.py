"""What requests say and what the log keeps of them. No I/O.

entries                            the kinds of log entries besides events
envelope                           events in every form, turned into structured CloudEvents
subscriptions, filter_dialects     subscriptions as requests ask for them, with the filters of the CloudEvents API
webhook_sinks                      sinks, credentials, secrets and digests of a subscription
schema_extensions, context_schema  extensions of the schema; the schema with the attributes of CloudEvents
request_trace                      ids and traces of requests
settings, errors                   the settings of a broker; its errors with their HTTP status
"""
