"""Signatures: conjunctions over attributes of few values as 128 bits each; one AND decides."""

from whimbrel.engine.access.shared.key import AccessKey
from whimbrel.engine.access.signature.kernel import SIGNATURE, decode, explain, match_signatures
from whimbrel.engine.access.signature.plan import bid, claim, lay_out

KEY = AccessKey(("signature",), SIGNATURE, lay_out, decode, explain, claim=claim, bid=bid, match_event=match_signatures)
