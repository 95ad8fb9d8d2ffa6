"""What the operators have to compute: plain numpy after the definition, nothing shared with the kernels."""

import numpy


def window(position, input_size, output_size):
    """The half open window of an output position, in integers."""
    return position * input_size // output_size, -((-(position + 1) * input_size) // output_size)


def forward(values, output_size):
    """Adaptive max pooling of fp32 values [..., H, W]: (maxima, flat indices as int64)."""
    height, width = values.shape[-2:]
    planes = values.reshape(-1, height, width)
    rows, columns = output_size
    maxima = numpy.empty((len(planes), rows, columns), numpy.float32)
    indices = numpy.empty((len(planes), rows, columns), numpy.int64)
    each = numpy.arange(len(planes))
    for row in range(rows):
        top, bottom = window(row, height, rows)
        for column in range(columns):
            left, right = window(column, width, columns)
            cells = planes[:, top:bottom, left:right].reshape(len(planes), -1)
            at = winners(cells)
            maxima[:, row, column] = cells[each, at]
            indices[:, row, column] = (top + at // (right - left)) * width + left + at % (right - left)
    shape = values.shape[:-2] + tuple(output_size)
    return maxima.reshape(shape), indices.reshape(shape)


def winners(cells):
    """Position of the winner in each row: the last NaN, else the first maximum."""
    is_nan = numpy.isnan(cells)
    first_maximum = numpy.where(is_nan, -numpy.inf, cells).argmax(axis=1)
    if not is_nan.any():
        return first_maximum
    last_nan = cells.shape[1] - 1 - is_nan[:, ::-1].argmax(axis=1)
    return numpy.where(is_nan.any(axis=1), last_nan, first_maximum)


def backward(grad_output, indices, input_shape):
    """fp32 sums in row-major order of grad_output, as fp32 [input_shape]."""
    cells = input_shape[-2] * input_shape[-1]
    grads = numpy.ascontiguousarray(grad_output, numpy.float32)
    planes = int(numpy.prod(grads.shape[:-2], dtype=numpy.int64))
    grads = grads.reshape(planes, -1)
    places = indices.reshape(grads.shape).astype(numpy.int64)
    sums = numpy.zeros((planes, cells), numpy.float32)
    with numpy.errstate(invalid="ignore", over="ignore"):
        if planes > grads.shape[1]:
            # Different planes never meet: one addition for all of them at each output position keeps the order.
            each = numpy.arange(planes)
            for position in range(grads.shape[1]):
                sums[each, places[:, position]] += grads[:, position]
        else:
            flat = places + numpy.arange(planes)[:, None] * cells
            numpy.add.at(sums.reshape(-1), flat.reshape(-1), grads.reshape(-1))
    return sums.reshape(input_shape)


def to_bf16_bits(values):
    """fp32 rounded once to nearest even, as uint16."""
    bits = numpy.ascontiguousarray(values, numpy.float32).view(numpy.uint32)
    rounded = ((bits + numpy.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)
    nan = ((bits >> 16) | 0x40).astype(numpy.uint16)
    return numpy.where(numpy.isnan(values), nan, rounded)


def from_bf16_bits(bits):
    return (numpy.ascontiguousarray(bits, numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)


def round_to(values, data_type):
    """fp32 values as they are stored in fp32, fp16 or bf16 (bits as uint16)."""
    if data_type == "bf16":
        return to_bf16_bits(values)
    with numpy.errstate(over="ignore"):
        return values.astype(numpy.float16 if data_type == "fp16" else numpy.float32)


def widen(stored, data_type):
    """What is stored in fp32, fp16 or bf16, as fp32."""
    return from_bf16_bits(stored) if data_type == "bf16" else stored.astype(numpy.float32)


def same_bits(first, second, data_type):
    """Bit for bit equal, but that any NaN equals any NaN."""
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    integers = {2: numpy.uint16, 4: numpy.uint32}[first.dtype.itemsize]
    equal = numpy.ascontiguousarray(first).view(integers) == numpy.ascontiguousarray(second).view(integers)
    both_nan = numpy.isnan(widen(first, data_type)) & numpy.isnan(widen(second, data_type))
    return bool((equal | both_nan).all())
