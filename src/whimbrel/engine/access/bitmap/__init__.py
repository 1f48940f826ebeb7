"""Bitmap keys: chunks of up to 512 conjunctions with a bit for each that is certainly dead."""

from whimbrel.engine.access.bitmap.kernel import decode, explain, match_chunks
from whimbrel.engine.access.bitmap.plan import BITMAP, bid, lay_out
from whimbrel.engine.access.shared.key import AccessKey

KEY = AccessKey(("bitmap",), BITMAP, lay_out, decode, explain, bid=bid, match_block=match_chunks)
