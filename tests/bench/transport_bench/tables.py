"""Rows as text."""


def number(value):
    """With three digits, or all before the point."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def row_lines(rows):
    """A block for each link; a line for each contestant."""
    lines = []
    width = max(len(name) for row in rows for name in row.rounds)
    link = None
    for row in rows:
        if row.link != link:
            link = row.link
            lines.append(f"\n==== {link}")
        direction = "less is better" if row.lower_is_better else "more is better"
        lines.append(f"{row.name} ({row.unit}, {direction}; median, least, most, rounds)")
        for name, values in row.rounds.items():
            figures = "".join(number(value).rjust(9) for value in (row.median(name), min(values), max(values)))
            lines.append(f"  {name.ljust(width)}{figures}{len(values):5}")
    return lines
