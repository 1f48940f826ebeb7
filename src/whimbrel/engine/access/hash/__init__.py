"""Hash keys: values that are looked up in one table, and the presence of an attribute that few events have."""

from whimbrel.engine.access.hash.decoding import decode, explain
from whimbrel.engine.access.hash.kernel import match_hash
from whimbrel.engine.access.hash.layout import HASH, lay_out
from whimbrel.engine.access.hash.plan import bid, claim
from whimbrel.engine.access.shared.key import AccessKey

KEY = AccessKey(("hash", "present"), HASH, lay_out, decode, explain, claim=claim, bid=bid, match_event=match_hash)
