// Combining: a part of vector.c. Every gradient is replaced by the sum of those before it that go to the same
// position and itself, so that of several at a position the last has the position's sum.
//
// Windows share positions only with their eight neighbours where there are no more of them than positions.
// Those before a gradient, in its order, are the three of the row above and the one to the left. Gradients
// lie in rows one after the other, plane after plane; what is found beyond the end of a row is a window on
// the other side, which shares nothing where there are at least three windows in each direction.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_VECTOR_COMBINE_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_VECTOR_COMBINE_H

// Adds those of the gradients `before` these that go to the same positions.
INLINE lanes combine_earlier(lanes sums, const int32_t *indices, const float *gradients, int64_t before,
                             lanes index) {
  hits same = lanes_equal(lanes_load(indices - before), index);
  return lanes_add_hit_floats(sums, same, lanes_load(gradients - before));
}

// How much of what was looked at is inside its window.
struct combine_inside {
  hits rows, columns;
};

INLINE void combine_line(const struct backward_combine *combine, int64_t line, struct combine_inside *inside,
                         enum value_kind value) {
  const struct combine_table *table = combine->table;
  const int32_t *indices = combine->indices + line * table->count;
  const float *gradients = combine->gradients + line * table->count;
  uint16_t *combined = combine->combined + line * table->count;
  const int64_t above = table->output_columns;
  const lanes first = lanes_every(combine->first), columns = lanes_every((int32_t)table->columns);
  for (int64_t i = 0; i < table->padded; i += BACKWARD_LANES) {
    lanes index = lanes_load(indices + i);
    // From the window's first position on. Up to the end of the last row, the row is exact; before and
    // beyond, row or column are too large, or negative, which is large too.
    lanes offset = lanes_subtract(lanes_subtract(index, lanes_load(table->base + i)), first);
    lanes row = lanes_scale(offset, table->inverse, table->half);
    lanes column = lanes_subtract(offset, lanes_multiply(row, columns));
    inside->rows = lanes_at_most_where(inside->rows, row, lanes_load(combine->last_row + i));
    inside->columns = lanes_at_most_where(inside->columns, column, lanes_load(table->last_column + i));
    // A sum is never -0, also where nothing is added to it.
    lanes sums = lanes_every(0);
    sums = combine_earlier(sums, indices + i, gradients + i, above + 1, index);
    sums = combine_earlier(sums, indices + i, gradients + i, above, index);
    sums = combine_earlier(sums, indices + i, gradients + i, above - 1, index);
    sums = combine_earlier(sums, indices + i, gradients + i, 1, index);
    sums = combine_earlier(sums, indices + i, gradients + i, 0, index);
    lanes_store_halves(combined + i, value == VALUE_FP16 ? lanes_to_fp16(sums) : lanes_to_bf16(sums));
  }
}

INLINE bool combine_typed(const struct backward_combine *combine, enum value_kind value) {
  hits all = lanes_equal(lanes_every(0), lanes_every(0));
  struct combine_inside inside = {all, all};
  for (int64_t line = 0; line < combine->lines; line++) {
    combine_line(combine, line, &inside, value);
  }
  return lanes_all(inside.rows) && lanes_all(inside.columns);
}

// Stores what was combined: of whole planes, or the part of one that is owned.
static void place(const struct backward_place *place) {
  const int32_t *indices = place->indices;
  const uint16_t *combined = place->combined;
  uint16_t *to = place->grad_input;
  for (int64_t plane = 0; plane < place->planes; plane++) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < place->count; i++) {
      to[indices[i] - place->first] = combined[i];
    }
    indices += place->count;
    combined += place->count;
    to += place->owned;
  }
}

static void place_owned(const struct backward_place *place) {
  uint16_t *to = place->grad_input;
  uint64_t last = 0;
  uint32_t last_value = to[0];
  for (int64_t i = 0; i < place->count; i++) {
    uint64_t position = (uint64_t)(place->indices[i] - place->first);
    // No branch, which would be taken at random: instead of one that isn't owned the last is stored again.
    uint64_t mine = -(uint64_t)(position < (uint64_t)place->owned);
    last = (position & mine) | (last & ~mine);
    last_value = (place->combined[i] & (uint32_t)mine) | (last_value & ~(uint32_t)mine);
    to[last] = (uint16_t)last_value;
  }
}

#endif
