"""How a slot and its flags, and an attribute and the kind of its item, share an int32."""

VERIFY_BIT, SHARED_BIT = 1 << 29, 1 << 30
SLOT_MASK = VERIFY_BIT - 1
KIND_SHIFT = 28
ATTR_MASK = (1 << KIND_SHIFT) - 1
