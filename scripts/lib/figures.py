"""Draws panels of curves against size, with one common legend. The figure can be read without its page."""

import textwrap
from dataclasses import dataclass, field

from sizes import size_text

PANELS_A_ROW = 4
MARKERS = "osD^vPX*<>"
# The first list with 3 to TICKS ticks in the range of the values is used.
RATIO_TICKS = ((0.95, 1, 1.05), (0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4), (0.5, 0.7, 1, 1.5, 2, 3, 4),
               [2.0**power for power in range(-6, 12)], [4.0**power for power in range(-6, 12)])
TICKS = 7


@dataclass
class Panel:
    """One pair of axes. A curve maps sizes to (value, low, high); low and high may equal the value."""
    title: str
    is_ratio: bool
    curves: dict = field(default_factory=dict)


def ratio_text(value, _=None):
    return f"{value:g}"


def time_text(microseconds, _=None):
    for unit, factor in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= factor:
            return f"{microseconds / factor:g} {unit}"
    return f"{microseconds:g} µs"


def set_ratio_scale(axes, panel, ticker):
    """Sets a logarithmic scale that contains 1 and some ticks, for any range of values."""
    values = [number for curve in panel.curves.values() for point in curve.values() for number in point]
    low, high = min(0.94, *values) * 0.98, max(1.06, *values) * 1.03
    ticks = next((ticks for ticks in RATIO_TICKS if ticks[0] * 0.7 <= low and high <= ticks[-1] * 1.5
                  and 3 <= sum(low <= tick <= high for tick in ticks) <= TICKS), RATIO_TICKS[-1])
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    axes.yaxis.set_major_locator(ticker.FixedLocator(ticks))
    axes.yaxis.set_minor_locator(ticker.NullLocator())
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(ratio_text))
    axes.axhline(1, color="black", linewidth=1)


def draw_panel(axes, panel, styles, ticker):
    for label, curve in panel.curves.items():
        sizes = sorted(curve)
        color, marker = styles[label]
        axes.plot(sizes, [curve[size][0] for size in sizes], marker=marker, markersize=4, linewidth=1.3, color=color)
        axes.fill_between(sizes, [curve[size][1] for size in sizes], [curve[size][2] for size in sizes], color=color, alpha=0.15,
                          linewidth=0)
    axes.set_title(panel.title, fontsize="medium")
    axes.set_xscale("log", base=2)
    sizes = sorted({size for curve in panel.curves.values() for size in curve})
    axes.set_xticks(sizes, [size_text(size) for size in sizes], rotation=45, ha="right", fontsize="small")
    axes.xaxis.set_minor_locator(ticker.NullLocator())
    axes.grid(alpha=0.3)
    if panel.is_ratio:
        set_ratio_scale(axes, panel, ticker)
    else:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(time_text))


def wrapped(notes, width):
    """Puts as many notes on a line as fit."""
    lines = []
    for note in notes:
        if lines and len(lines[-1]) + len(note) + 3 <= width:
            lines[-1] += f" · {note}"
        else:
            lines += textwrap.wrap(note, width, subsequent_indent="   ")
    return "\n".join(lines)


def draw(rows, title, ylabels, notes, pyplot, ticker, lines):
    """Draws `rows` of panels (lists of equal length, one row below the other per operation), wrapped if there are many."""
    columns = min(PANELS_A_ROW, len(rows[0]))
    blocks = -(-len(rows[0]) // columns)
    figure, grid = pyplot.subplots(blocks * len(rows), columns, figsize=(max(8, 3.6 * columns), 3.1 * blocks * len(rows) + 1.5),
                                   squeeze=False, layout="constrained")
    labels = list(dict.fromkeys(label for row in rows for panel in row for label in panel.curves))
    styles = {label: (f"C{index % 10}", MARKERS[index % len(MARKERS)])
              for index, label in enumerate(labels)}
    for axes in grid.flat:
        axes.set_visible(False)
    for index in range(len(rows[0])):
        for offset, row in enumerate(rows):
            axes = grid[index // columns * len(rows) + offset][index % columns]
            axes.set_visible(True)
            draw_panel(axes, row[index], styles, ticker)
            if index % columns == 0:
                axes.set_ylabel(ylabels[offset])
    figure.suptitle(title)
    handles = [lines.Line2D([], [], color=color, marker=marker, markersize=5, label=label)
               for label, (color, marker) in styles.items()]
    # Below the figure, which is saved with what is outside; matplotlib 3.6 of Debian 12 knows no location "outside".
    figure.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=max(1, min(columns, len(handles))), fontsize="small",
                  title=wrapped(notes, int(9 * figure.get_figwidth())) or None, title_fontsize="small", alignment="left")
    return figure
