"""Formats and parses sizes in tutti's notation."""

UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def bytes_of(text):
    for unit, factor in UNITS:
        if text.endswith(unit):
            return int(float(text[:-3]) * factor)
    return int(text)


def size_text(size):
    for unit, factor in UNITS:
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"
