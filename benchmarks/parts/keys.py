"""Which keys the C client's `keyed` load writes: the same here, to know what has to be left.

Record n has key number splitmix64(n) modulo the number of keys, as sixteen digits. So keys come in
no order, some often and some hardly ever.

Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014), splitmix64.
"""

KEY_BYTES = 16
_ALL = (1 << 64) - 1


def key_number(number: int, keys: int) -> int:
    """Return the number of the key that record `number` has, of so many keys."""
    mixed = (number + 1) * 0x9E3779B97F4A7C15 & _ALL
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _ALL
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _ALL
    return (mixed ^ mixed >> 31) % keys


def key_of(number: int, keys: int) -> bytes:
    """Return the key of record `number`."""
    return b"%016d" % key_number(number, keys)
