"""Ratios per shape as an SVG picture, without any library."""

import math
import xml.sax.saxutils

import cases
import figures

_LABELS = 210
_WIDTH = 560
_LINE = 18
_HEAD = 34
_FOOT = 26
_COLOURS = {"int64": "#1b6ca8", "int32": "#d1495b"}
_TICKS = (0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128)


def _text(x, y, text, anchor="start", size=11):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="#222">'
            f"{xml.sax.saxutils.escape(text)}</text>")


class _Scale:
    """A logarithmic axis that holds all values and 1."""

    def __init__(self, values):
        self.low = min([*values, 0.9]) / 1.1
        self.high = max([*values, 2.2]) * 1.1

    def x(self, value):
        return _LABELS + _WIDTH * math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self):
        return [tick for tick in _TICKS if self.low <= tick <= self.high]


def _ratios(row, path):
    peer = "torch" if row.case.operator == "backward" else figures.best_peer(row)
    found = {index: figures.times_faster(row, peer, path, index) for index in cases.INDEX_TYPES}
    return {index: value for index, value in found.items() if value is not None}


def _panel(rows, path, top):
    """(elements, height) of one operator, type and number of threads."""
    ratios = [_ratios(row, path) for row in rows]
    scale = _Scale([bound for by_index in ratios for value in by_index.values() for bound in (value.low, value.high)])
    case = rows[0].case
    peer = "torch" if case.operator == "backward" else "the best peer"
    bottom = top + _HEAD + len(rows) * _LINE
    heading = f"{case.operator} {case.value_type}, threads: {case.threads}; times faster than {peer}"
    elements = [_text(10, top + 20, heading, size=13)]
    for tick in scale.ticks():
        x = scale.x(tick)
        colour, width = ("#000", 1.5) if tick == 1 else ("#ccc", 1)
        elements.append(f'<line x1="{x:.1f}" y1="{top + _HEAD}" x2="{x:.1f}" y2="{bottom}" stroke="{colour}" '
                        f'stroke-width="{width}"/>')
        elements.append(_text(x, bottom + 14, f"{tick:g}", "middle"))
    for number, (row, by_index) in enumerate(zip(rows, ratios)):
        y = top + _HEAD + (number + 0.5) * _LINE
        elements.append(_text(_LABELS - 8, y + 4, row.case.shape_name, "end"))
        for offset, (index, value) in zip((-3, 3), by_index.items()):
            colour = _COLOURS[index]
            elements.append(f'<line x1="{scale.x(value.low):.1f}" y1="{y + offset:.1f}" x2="{scale.x(value.high):.1f}" '
                            f'y2="{y + offset:.1f}" stroke="{colour}" stroke-width="2"/>')
            elements.append(f'<circle cx="{scale.x(value.median):.1f}" cy="{y + offset:.1f}" r="3.5" fill="{colour}"/>')
    return elements, _HEAD + len(rows) * _LINE + _FOOT


def svg(rows, path, title):
    """The picture: a panel for each operator, type and number of threads that has a peer."""
    elements = [_text(10, 20, title, size=14)]
    for number, (index, colour) in enumerate(_COLOURS.items()):
        elements.append(f'<circle cx="{16 + number * 200}" cy="36" r="4" fill="{colour}"/>')
        elements.append(_text(26 + number * 200, 40, f"{index} indices, line: quartiles"))
    top = 48
    groups = {}
    for row in rows:
        if _ratios(row, path):
            groups.setdefault((row.case.operator, row.case.value_type, row.case.threads), []).append(row)
    for group in groups.values():
        panel, height = _panel(group, path, top)
        elements += panel
        top += height
    width = _LABELS + _WIDTH + 30
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top + 10}" font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="#fff"/>', *elements, "</svg>", ""
    ])
