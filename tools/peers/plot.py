"""The plot: a bar a model and case, how many times as fast quern is."""

import math
from html import escape

from .cases import MODELS

WIDTH, LEFT, RIGHT = 860, 400, 790  # the axis lies between the last two
TOP, STEP, BAR = 78, 20, 12
GREEN, AMBER, GREY, INK = "#2a8f6a", "#d98a29", "#8a94a3", "#20242c"
NOTE = ("How many times as fast as the peer (logarithmic; dark line: the goal; "
        "green: met, amber: missed, grey: none set)")


def ratios(results):
    lines = [line for line in results.lines if line.ratio]
    least, most = powers([line.ratio for line in lines] +
                         [line.goal for line in lines if line.goal])
    bottom = TOP + STEP * len(lines)

    def x(ratio):
        part = (math.log2(ratio) - least) / (most - least)
        return round(LEFT + part * (RIGHT - LEFT), 1)

    parts = [text(16, 22, results.facts["cpu"], weight="bold"),
             text(16, 42, NOTE)]
    for power in range(least, most + 1):
        parts += tick(x(2.0 ** power), f"{2.0 ** power:g}", bottom, power == 0)
    for i, line in enumerate(lines):
        parts += bar(line, x, TOP + STEP * i)
    return svg(bottom + 12, parts)


def powers(values):
    """The powers of two around the values, and around 1."""
    logs = [0, *map(math.log2, values)]
    return math.floor(min(logs)), max(1, math.ceil(max(logs)))


def bar(line, x, top):
    label = f"{line.case.title}: {MODELS[line.model]}"
    one, end = x(1), x(line.ratio)
    colour = GREY
    if line.goal:
        colour = GREEN if line.met else AMBER
    parts = [text(LEFT - 10, top + 10, label, anchor="end"),
             f'<rect x="{min(one, end)}" y="{top}" height="{BAR}" '
             f'width="{abs(end - one):.1f}" fill="{colour}"/>',
             text(WIDTH - 16, top + 10, f"{line.ratio:.2f}", anchor="end")]
    if line.goal:
        parts.append(upright(x(line.goal), top - 3, top + BAR + 3, INK, 2))
    return parts


def tick(at, label, bottom, is_one):
    return [upright(at, TOP - 6, bottom, INK if is_one else "#d5d9e0", 1),
            text(at, TOP - 10, label, anchor="middle")]


def upright(x, top, bottom, colour, width):
    return (f'<line x1="{x}" x2="{x}" y1="{top}" y2="{bottom}" '
            f'stroke="{colour}" stroke-width="{width}"/>')


def text(x, y, words, anchor="start", weight="normal"):
    return (f'<text x="{x}" y="{y}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{escape(words)}</text>')


def svg(height, parts):
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" '
            f'height="{height}" viewBox="0 0 {WIDTH} {height}" '
            f'font-family="sans-serif" font-size="12" fill="{INK}">\n'
            f'<rect width="100%" height="100%" fill="white"/>\n'
            f"{body}\n</svg>\n")
