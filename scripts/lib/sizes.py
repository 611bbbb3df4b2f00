"""Sizes as tutti spells them."""

UNITS = (("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30))


def bytes_of(text):
    for unit, factor in UNITS:
        if text.endswith(unit):
            return int(float(text[:-3]) * factor)
    return int(text)
