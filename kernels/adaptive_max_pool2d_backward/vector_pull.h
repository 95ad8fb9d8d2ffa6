// The part of vector.c that pulls: rows of gradInput, a vector of positions at a time. It is written with the
// kinds and conversions of vector.c and included by it alone, where vectors can be permuted.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_VECTOR_PULL_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_VECTOR_PULL_H

// `bytes` of them are this call's to write, which is all of them almost always.
INLINE void pull_store(unsigned char *to, int64_t bytes, lanes sums, bool streams, enum value_kind value) {
  unsigned char stored[sizeof sums];
  const int64_t vector_bytes = BACKWARD_LANES * bytes_of(value);
  bool whole = __builtin_expect(bytes >= vector_bytes, 1);
  if (value != VALUE_FP32) {
    lanes_store_halves(whole ? to : stored, value == VALUE_FP16 ? lanes_to_fp16(sums) : lanes_to_bf16(sums));
  } else if (streams) {
    lanes_stream(to, sums);
  } else {
    lanes_store(whole ? to : stored, sums);
  }
  if (!whole) {
    memcpy(to, stored, (size_t)bytes);
  }
}

struct pull_choice {
  lanes pattern;
  hits active;
};

INLINE struct pull_choice pull_choose(const struct pull_pattern *pattern) {
  return (struct pull_choice){lanes_load(pattern->lanes), lanes_negative(lanes_load(pattern->active))};
}

INLINE void take(lanes *sums, lanes *taken, const int32_t *indices, const float *gradients, lanes position,
                 struct pull_choice choice, int32_t width) {
  lanes chosen = lanes_load(indices), values = lanes_load(gradients);
  // Compared and added from registers: with a mask, operands in memory take several times as long.
  lanes_keep(&chosen);
  lanes_keep(&values);
  if (width == 1) {
    chosen = lanes_permute(chosen, choice.pattern);
    values = lanes_permute(values, choice.pattern);
  } else if (width == 2) {
    chosen = lanes_permute_two(chosen, lanes_load(indices + BACKWARD_LANES), choice.pattern);
    values = lanes_permute_two(values, lanes_load(gradients + BACKWARD_LANES), choice.pattern);
  }
  hits hit = lanes_equal_where(choice.active, chosen, position);
  *taken = lanes_count(*taken, hit);
  *sums = lanes_add_hit_floats(*sums, hit, values);
}

// A row of gradInput. Its slots go by vectors; slot_count is that of each vector, or 0 where they differ.
INLINE void pull_row(const struct backward_pull *pull, const int32_t *indices, const float *gradients,
                     unsigned char *to, int64_t bytes_left, int64_t row, int64_t slot_count, int32_t width,
                     lanes *taken, enum value_kind value) {
  const struct pull_table *table = pull->table;
  const int64_t output_columns = table->output_columns, vectors = table->vectors;
  const int32_t turns = table->row[row].count;
  const struct pull_slot *slots = table->slot;
  lanes position = lanes_add(lanes_load(table->iota), lanes_every((int32_t)(row * table->columns)));
  for (int64_t vector = 0; vector < vectors; vector++) {
    int64_t count = slot_count > 0 ? slot_count : table->first_slot[vector + 1] - table->first_slot[vector];
    lanes sums = lanes_every(0);
    const int32_t *turn_indices = indices;
    const float *turn_gradients = gradients;
    for (int32_t turn = 0; turn < turns; turn++) {
      for (int64_t slot = 0; slot < count; slot++) {
        take(&sums, taken, turn_indices + slots[slot].base, turn_gradients + slots[slot].base, position,
             pull_choose(&table->pattern[slots[slot].pattern]), width);
      }
      turn_indices += output_columns;
      turn_gradients += output_columns;
    }
    pull_store(to, bytes_left, sums, pull->streams, value);
    slots += count;
    to += BACKWARD_LANES * bytes_of(value);
    bytes_left -= BACKWARD_LANES * bytes_of(value);
    position = lanes_add(position, lanes_every(BACKWARD_LANES));
  }
}

INLINE int64_t pull_rows(const struct backward_pull *pull, int64_t slot_count, int32_t width,
                         enum value_kind value) {
  const struct pull_table *table = pull->table;
  const int64_t row_bytes = table->columns * bytes_of(value);
  const int64_t plane_gradients = table->output_rows * table->output_columns;
  int64_t bytes_left = pull->planes * (pull->row_end - pull->row_begin) * row_bytes;
  unsigned char *to = pull->grad_input;
  lanes taken = lanes_every(0);
  for (int64_t plane = 0; plane < pull->planes; plane++) {
    for (int64_t row = pull->row_begin; row < pull->row_end; row++) {
      int64_t first =
          plane * plane_gradients + (table->row[row].begin - pull->output_begin) * table->output_columns;
      // What the last vector writes beyond the row is written again with the next one.
      pull_row(pull, pull->indices + first, pull->gradients + first, to, bytes_left, row, slot_count, width,
               &taken, value);
      to += row_bytes;
      bytes_left -= row_bytes;
    }
  }
  int32_t counts[BACKWARD_LANES];
  lanes_store(counts, taken);
  int64_t total = 0;
  for (int lane = 0; lane < BACKWARD_LANES; lane++) {
    total += counts[lane];
  }
  return total;
}

// Slots and width are constants in the loops of the usual shapes.
INLINE int64_t pull_typed(const struct backward_pull *pull, enum value_kind value) {
  int64_t slots = pull->table->slots_alike;
  switch (pull->table->width) {
  case 0:
    return slots == 2 ? pull_rows(pull, 2, 0, value) : pull_rows(pull, 0, 0, value);
  case 1:
    return slots == 2   ? pull_rows(pull, 2, 1, value)
           : slots == 1 ? pull_rows(pull, 1, 1, value)
                        : pull_rows(pull, 0, 1, value);
  default:
    return slots == 2 ? pull_rows(pull, 2, 2, value) : pull_rows(pull, 0, 2, value);
  }
}

#endif
