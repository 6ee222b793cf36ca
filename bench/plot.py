"""A scatter plot as SVG, of few points with a label each."""

import html

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 400, 60, 150, 20, 45


def _ticks(low, high):
    """Round numbers from below `low` to above `high`, at least two."""
    if low == high:
        low, high = low - 1, high + 1
    span = high - low
    step = next(s for e in range(-9, 9) for s in (10**e, 2 * 10**e, 5 * 10**e) if span / s <= 6)
    first = int(low // step)
    count = max(2, int(-(-(high - first * step) // step)) + 1)
    return [(first + i) * step for i in range(count)]


def scatter(points, x_title, y_title):
    """`points` are (x, y, label)."""
    xs, ys = _ticks(*_ends(p[0] for p in points)), _ticks(*_ends(p[1] for p in points))

    def at(x, y):
        return (LEFT + (x - xs[0]) / (xs[-1] - xs[0]) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - (y - ys[0]) / (ys[-1] - ys[0]) * (HEIGHT - TOP - BOTTOM))

    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
             'font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']

    def text(x, y, words, anchor="middle", more=""):
        lines.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{html.escape(words)}</text>')

    def line(begin, end):
        lines.append('<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="#ddd"/>'.format(*begin, *end))

    for x in xs:
        line(at(x, ys[0]), at(x, ys[-1]))
        text(at(x, 0)[0], HEIGHT - BOTTOM + 18, f"{x:g}")
    for y in ys:
        line(at(xs[0], y), at(xs[-1], y))
        text(LEFT - 8, at(0, y)[1] + 4, f"{y:g}", "end")
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x_title)
    text(0, 0, y_title, more=f' transform="translate(16 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)"')
    for x, y, label in points:
        px, py = at(x, y)
        lines.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4" fill="#1f5fa8"/>')
        text(px + 7, py + 4, label, "start")
    return "\n".join([*lines, "</svg>", ""])


def _ends(values):
    values = list(values)
    return min(values), max(values)
