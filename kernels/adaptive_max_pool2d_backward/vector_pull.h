// The part of vector.c that pulls: rows of gradInput, a vector of positions at a time. It is written with the
// kinds and conversions of vector.c and included by it alone, where vectors can be permuted.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_VECTOR_PULL_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_VECTOR_PULL_H

typedef int32_t int_lanes __attribute__((vector_size(BACKWARD_LANES * 4)));
typedef uint32_t bit_lanes __attribute__((vector_size(BACKWARD_LANES * 4)));
typedef float float_lanes __attribute__((vector_size(BACKWARD_LANES * 4)));
typedef uint16_t half_lanes __attribute__((vector_size(BACKWARD_LANES * 2)));

INLINE int_lanes load(const void *from) {
  int_lanes lanes;
  memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

INLINE half_lanes round_lanes(float_lanes sums, enum value_kind value) {
  if (value == VALUE_FP16) {
#if BACKWARD_LANES == 16
    return (half_lanes)_mm512_cvtps_ph((__m512)sums, _MM_FROUND_TO_NEAREST_INT);
#else
    return (half_lanes)_mm256_cvtps_ph((__m256)sums, _MM_FROUND_TO_NEAREST_INT);
#endif
  }
  bit_lanes bits = (bit_lanes)sums;
  bit_lanes nan = (bit_lanes)((bits & 0x7fffffffu) > 0x7f800000u);
  bit_lanes rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  rounded = (nan & ((bits >> 16) | 0x40u)) | (~nan & rounded);
  return __builtin_convertvector(rounded, half_lanes);
}

// `bytes` of them are this call's to write, which is all of them almost always.
INLINE void store_lanes(unsigned char *to, int64_t bytes, float_lanes sums, bool streams,
                        enum value_kind value) {
  if (value == VALUE_FP32) {
    if (streams) {
#if BACKWARD_LANES == 16
      _mm512_stream_ps((void *)to, (__m512)sums);
#else
      _mm256_stream_ps((void *)to, (__m256)sums);
#endif
    } else if (__builtin_expect(bytes >= (int64_t)sizeof sums, 1)) {
      memcpy(to, &sums, sizeof sums);
    } else {
      memcpy(to, &sums, (size_t)bytes);
    }
    return;
  }
  half_lanes rounded = round_lanes(sums, value);
  if (__builtin_expect(bytes >= (int64_t)sizeof rounded, 1)) {
    memcpy(to, &rounded, sizeof rounded);
  } else {
    memcpy(to, &rounded, (size_t)bytes);
  }
}

// What all rows of one vector of positions have in common.
struct pull_column {
  const struct pull_slot *slots;
  int64_t slot_count;
  int_lanes position; // in row 0
  int64_t offset;     // in the row
};

INLINE void take(int_lanes *sums, int_lanes *taken, const int32_t *indices, const float *gradients,
                 int_lanes position, const struct pull_pattern *pattern, int32_t width) {
  int_lanes index_lanes = load(indices), gradient_lanes = load(gradients), lanes = load(pattern->lanes);
  if (width == 1) {
    index_lanes = __builtin_shuffle(index_lanes, lanes);
    gradient_lanes = __builtin_shuffle(gradient_lanes, lanes);
  } else if (width == 2) {
    index_lanes = __builtin_shuffle(index_lanes, load(indices + BACKWARD_LANES), lanes);
    gradient_lanes = __builtin_shuffle(gradient_lanes, load(gradients + BACKWARD_LANES), lanes);
  }
  int_lanes hit = (index_lanes == position) & load(pattern->active);
  *taken -= hit;
  // A lane without a hit adds +0, which changes no sum: none of them is ever -0.
  *sums = (int_lanes)((float_lanes)*sums + (float_lanes)(gradient_lanes & hit));
}

// All rows of one vector; how many gradients each lane took. slot_count and width are constants where it is
// inlined, so that patterns stay in registers.
INLINE int_lanes pull_column(const struct backward_pull *pull, const struct pull_column *column,
                             int64_t slot_count, int32_t width, enum value_kind value) {
  const struct pull_table *table = pull->table;
  const int64_t row_begin = pull->row_begin, row_end = pull->row_end, planes = pull->planes;
  const int64_t row_elements = table->columns, output_columns = table->output_columns;
  const int64_t plane_gradients = table->output_rows * output_columns;
  const struct pull_row *const rows = table->row;
  const bool streams = pull->streams;
  const int32_t *base_indices = pull->indices - pull->output_begin * output_columns;
  const float *base_gradients = pull->gradients - pull->output_begin * output_columns;
  int64_t elements_left = planes * (row_end - row_begin) * row_elements - column->offset;
  unsigned char *to = (unsigned char *)pull->grad_input + column->offset * bytes_of(value);
  const struct pull_pattern patterns[2] = {table->pattern[column->slots[0].pattern],
                                           table->pattern[column->slots[slot_count > 1].pattern]};
  const int64_t bases[2] = {column->slots[0].base, column->slots[slot_count > 1].base};
  int_lanes taken = {0};
  for (int64_t plane = 0; plane < planes; plane++) {
    int_lanes position = column->position + (int32_t)(row_begin * row_elements);
    for (int64_t row = row_begin; row < row_end; row++) {
      int_lanes sums = {0};
      const int32_t *indices = base_indices + rows[row].begin * output_columns;
      const float *gradients = base_gradients + rows[row].begin * output_columns;
      for (int32_t turn = 0; turn < rows[row].count; turn++) {
        if (slot_count <= 2) {
          take(&sums, &taken, indices + bases[0], gradients + bases[0], position, &patterns[0], width);
          if (slot_count == 2) {
            take(&sums, &taken, indices + bases[1], gradients + bases[1], position, &patterns[1], width);
          }
        } else {
          for (int64_t slot = 0; slot < slot_count; slot++) {
            int64_t base = column->slots[slot].base;
            take(&sums, &taken, indices + base, gradients + base, position,
                 &table->pattern[column->slots[slot].pattern], width);
          }
        }
        indices += output_columns;
        gradients += output_columns;
      }
      store_lanes(to, elements_left * bytes_of(value), (float_lanes)sums, streams, value);
      to += row_elements * bytes_of(value);
      elements_left -= row_elements;
      position += (int32_t)row_elements;
    }
    base_indices += plane_gradients;
    base_gradients += plane_gradients;
  }
  return taken;
}

// The same where each row has one window row over it, and each vector one slot: a row of gradOutput is loaded
// and permuted once for all rows of its windows.
INLINE int_lanes expand_column(const struct backward_pull *pull, const struct pull_column *column,
                               int32_t width, enum value_kind value) {
  const struct pull_table *table = pull->table;
  const int64_t row_elements = table->columns, output_columns = table->output_columns;
  const int64_t window_rows = table->rows / table->output_rows, row_end = pull->row_end;
  const int64_t row_bytes = row_elements * bytes_of(value);
  const bool streams = pull->streams;
  const struct pull_pattern pattern = table->pattern[column->slots->pattern];
  const int_lanes lanes = load(pattern.lanes), active = load(pattern.active);
  const int32_t *indices = pull->indices + column->slots->base;
  const float *gradients = pull->gradients + column->slots->base;
  int64_t bytes_left =
      pull->planes * (row_end - pull->row_begin) * row_bytes - column->offset * bytes_of(value);
  unsigned char *to = (unsigned char *)pull->grad_input + column->offset * bytes_of(value);
  int_lanes taken = {0};
  for (int64_t plane = 0; plane < pull->planes; plane++) {
    int_lanes position = column->position + (int32_t)(pull->row_begin * row_elements);
    int64_t window_end = (pull->output_begin + 1) * window_rows;
    for (int64_t row = pull->row_begin; row < row_end; window_end += window_rows) {
      int_lanes index_lanes = load(indices), gradient_lanes = load(gradients);
      if (width == 1) {
        index_lanes = __builtin_shuffle(index_lanes, lanes);
        gradient_lanes = __builtin_shuffle(gradient_lanes, lanes);
      } else if (width == 2) {
        index_lanes = __builtin_shuffle(index_lanes, load(indices + BACKWARD_LANES), lanes);
        gradient_lanes = __builtin_shuffle(gradient_lanes, load(gradients + BACKWARD_LANES), lanes);
      }
      gradient_lanes = (int_lanes)((float_lanes)gradient_lanes + 0.0f);
      int64_t end = window_end < row_end ? window_end : row_end;
      for (; row < end; row++) {
        int_lanes hit = (index_lanes == position) & active;
        taken -= hit;
        store_lanes(to, bytes_left, (float_lanes)(gradient_lanes & hit), streams, value);
        to += row_bytes;
        bytes_left -= row_bytes;
        position += (int32_t)row_elements;
      }
      indices += output_columns;
      gradients += output_columns;
    }
  }
  return taken;
}

INLINE int_lanes pull_column_of_width(const struct backward_pull *pull, const struct pull_column *column,
                                      int32_t width, enum value_kind value) {
  switch (column->slot_count) {
  case 1:
    return pull->table->rows % pull->table->output_rows == 0 ? expand_column(pull, column, width, value)
                                                             : pull_column(pull, column, 1, width, value);
  case 2:
    return pull_column(pull, column, 2, width, value);
  default:
    return pull_column(pull, column, column->slot_count, width, value);
  }
}

INLINE int64_t pull_typed(const struct backward_pull *pull, enum value_kind value) {
  const struct pull_table *table = pull->table;
  int_lanes taken = {0}, iota;
  for (int lane = 0; lane < BACKWARD_LANES; lane++) {
    iota[lane] = lane;
  }
  // From the last vector to the first: what the last one writes beyond its row is written again.
  for (int64_t vector = table->vectors; vector-- > 0;) {
    struct pull_column column = {
        .slots = table->slot + table->first_slot[vector],
        .slot_count = table->first_slot[vector + 1] - table->first_slot[vector],
        .position = iota + (int32_t)(vector * BACKWARD_LANES),
        .offset = vector * BACKWARD_LANES,
    };
    int32_t width = 0;
    for (int64_t slot = 0; slot < column.slot_count; slot++) {
      int32_t slot_width = table->pattern[column.slots[slot].pattern].width;
      width = slot_width > width ? slot_width : width;
    }
    taken += width == 0   ? pull_column_of_width(pull, &column, 0, value)
             : width == 1 ? pull_column_of_width(pull, &column, 1, value)
                          : pull_column_of_width(pull, &column, 2, value);
  }
  if (pull->streams) {
    _mm_sfence();
  }
  int64_t total = 0;
  for (int lane = 0; lane < BACKWARD_LANES; lane++) {
    total += taken[lane];
  }
  return total;
}

#endif
