"""State-persistent topics of the broker: publications with a key, whose subscriptions hear of transitions only.

updates            what a request asks for: put, patch, delete
tenant_states      the publications and the subscriptions of one tenant
topic              all tenants, as the sequencer uses them: updates in, entries of the log and notifications out
rendering          from entries of the log to messages
"""
