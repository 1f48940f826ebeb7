"""Publications and subject spaces of the broker: state stays, and subscriptions hear of transitions only.

update_requests    updates as requests ask for them: put, patch, delete
region_bodies      regions of spaces as JSON
tenant_states      the publications of one tenant, and the subscriptions on them
publication_topic  the publications of all tenants, as the sequencer uses them: updates in, log entries out
space_topic        the same for subject spaces
watchers           streams on publications that live with their connection
topics             both, for the sequencer and the registry of subscriptions
rendering          turns log entries into messages
"""
