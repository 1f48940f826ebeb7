"""What things are, pure and without I/O.

values, intervals, patterns                    values and their one order; sets of values; sets of strings
constraint, conjunction                        what one attribute must be; what all of them must be
expression, normal_form, filter                a filter as written; as an OR of conjunctions; the reference evaluator
event, json_text, event_tables                 an event; from JSON text; from dicts, tables and frames
subscription, matcher, dialects, event_schema  subscriptions, and roles that others implement
explain, near_misses, covering                 why a filter matches or not; which almost match; which cover others
token_rules                                    rules of tokens: an attribute must have one certain value
schema                                         the integrated event schema
limits, errors                                 every limit with its reason; every error with its fields
"""
