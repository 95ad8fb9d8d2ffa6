"""Draws where the gradients of a pooled photograph landed."""

import numpy
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont

import reference

SCALE = 1.5
# Everything is drawn this much larger and then reduced, which smooths the edges.
OVERSAMPLE = 2
MARGIN = 24
CAPTION_HEIGHT = 64
BACKGROUND = (16, 18, 24)
TEXT = (232, 234, 240)
FAINT = (150, 156, 170)
POSITIVE = numpy.array([255, 150, 40])
NEGATIVE = numpy.array([60, 170, 255])
FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"


def font(size):
    try:
        return PIL.ImageFont.truetype(FONT, size)
    except OSError:
        return PIL.ImageFont.load_default()


def backdrop(values, brightness):
    """The photograph, dimmed and half grey, as an image of the drawing's size."""
    grey = values.mean(axis=0, keepdims=True)
    pixels = (0.35 * values + 0.65 * grey) * brightness * 255
    image = PIL.Image.fromarray(pixels.transpose(1, 2, 0).clip(0, 255).astype(numpy.uint8))
    size = [int(side * SCALE * OVERSAMPLE) for side in image.size]
    return image.resize(size, PIL.Image.LANCZOS).convert("RGBA")


def colour(gradient, opacity):
    return tuple(POSITIVE if gradient > 0 else NEGATIVE) + (int(opacity),)


def draw_windows(canvas, values, output_size):
    """The borders of the pooling windows."""
    pen = PIL.ImageDraw.Draw(canvas)
    unit = SCALE * OVERSAMPLE
    height, width = values.shape[1:]
    for row in range(1, output_size[0]):
        y = reference.window(row, height, output_size[0])[0] * unit
        pen.line([(0, y), (canvas.width, y)], fill=(255, 255, 255, 90), width=OVERSAMPLE)
    for column in range(1, output_size[1]):
        x = reference.window(column, width, output_size[1])[0] * unit
        pen.line([(x, 0), (x, canvas.height)], fill=(255, 255, 255, 90), width=OVERSAMPLE)


def marks(values, outcome):
    """A few gradients: a disc on each pixel that has one, its area by the size, its colour by the sign."""
    image = backdrop(values, 0.75)
    layer = PIL.Image.new("RGBA", image.size)
    draw_windows(layer, values, outcome.output_size)
    pen = PIL.ImageDraw.Draw(layer)
    unit = SCALE * OVERSAMPLE
    grads = outcome.grad_input.sum(axis=0)
    largest = numpy.abs(grads).max()
    places = numpy.argwhere(grads != 0)
    for y, x in sorted(places.tolist(), key=lambda place: -abs(grads[tuple(place)])):
        radius = unit * (2.5 + 9 * (abs(grads[y, x]) / largest) ** 0.5)
        centre = ((x + 0.5) * unit, (y + 0.5) * unit)
        box = [centre[0] - radius, centre[1] - radius, centre[0] + radius, centre[1] + radius]
        pen.ellipse(box, fill=colour(grads[y, x], 190), outline=(255, 255, 255, 230), width=OVERSAMPLE)
    return PIL.Image.alpha_composite(image, layer)


def heat(values, outcome):
    """Many gradients: every pixel that has one shines in the colour of its sign."""
    image = backdrop(values, 0.3)
    grads = outcome.grad_input.sum(axis=0)
    strength = (numpy.abs(grads) / numpy.percentile(numpy.abs(grads[grads != 0]), 95)).clip(0, 1) ** 0.6
    pixels = numpy.zeros(grads.shape + (4,), numpy.uint8)
    pixels[..., :3] = numpy.where(grads[..., None] > 0, POSITIVE, NEGATIVE)
    pixels[..., 3] = 255 * strength
    layer = PIL.Image.fromarray(pixels).resize(image.size, PIL.Image.NEAREST)
    return PIL.Image.alpha_composite(image, layer)


def draw(values, name, outcomes, path):
    """Writes the picture: one panel an outcome, its figures below."""
    panels = []
    for outcome in outcomes:
        few = outcome.indices.size < 1000
        panel = (marks if few else heat)(values, outcome)
        panels.append(panel.resize([side // OVERSAMPLE for side in panel.size], PIL.Image.LANCZOS))
    width = sum(panel.width for panel in panels) + MARGIN * (len(panels) + 1)
    title_height = 60
    canvas = PIL.Image.new("RGB", (width, title_height + panels[0].height + CAPTION_HEIGHT + MARGIN), BACKGROUND)
    pen = PIL.ImageDraw.Draw(canvas)
    pen.text((MARGIN, 16), f"aclnnAdaptiveMaxPool2dBackward: where the gradients land in {name}", TEXT, font(24))
    right = canvas.width - MARGIN
    for text, tint in (("negative", NEGATIVE), ("positive", POSITIVE)):
        right -= int(pen.textlength(text, font=font(16))) + 40
        pen.ellipse([right, 24, right + 14, 38], fill=tuple(tint))
        pen.text((right + 20, 21), text, FAINT, font(16))
    left = MARGIN
    for panel, outcome in zip(panels, outcomes):
        canvas.paste(panel.convert("RGB"), (left, title_height))
        head, *rest = outcome.line().split(", ")
        top = title_height + panel.height + 12
        pen.text((left, top), f"pooled to {head}, {', '.join(rest[:2])}", TEXT, font(16))
        pen.text((left, top + 24), ", ".join(rest[2:]), FAINT, font(16))
        left += panel.width + MARGIN
    canvas.save(path)
