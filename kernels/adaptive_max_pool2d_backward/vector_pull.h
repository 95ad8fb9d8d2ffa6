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

// Indices and gradients of a slot, by lanes.
struct pull_sources {
  lanes indices, gradients;
};

INLINE struct pull_sources pull_load(const int32_t *indices, const float *gradients,
                                     struct pull_choice choice, int32_t width) {
  struct pull_sources sources = {lanes_load(indices), lanes_load(gradients)};
  // Compared and added from registers: with a mask, operands in memory take several times as long.
  lanes_keep(&sources.indices);
  lanes_keep(&sources.gradients);
  if (width == 1) {
    sources.indices = lanes_permute(sources.indices, choice.pattern);
    sources.gradients = lanes_permute(sources.gradients, choice.pattern);
  } else if (width == 2) {
    sources.indices =
        lanes_permute_two(sources.indices, lanes_load(indices + BACKWARD_LANES), choice.pattern);
    sources.gradients =
        lanes_permute_two(sources.gradients, lanes_load(gradients + BACKWARD_LANES), choice.pattern);
  }
  return sources;
}

INLINE void take(lanes *sums, lanes *taken, struct pull_sources sources, lanes position,
                 struct pull_choice choice) {
  hits hit = lanes_equal_where(choice.active, sources.indices, position);
  *taken = lanes_count(*taken, hit);
  *sums = lanes_add_hit_floats(*sums, hit, sources.gradients);
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
        struct pull_choice choice = pull_choose(&table->pattern[slots[slot].pattern]);
        take(&sums, taken,
             pull_load(turn_indices + slots[slot].base, turn_gradients + slots[slot].base, choice, width),
             position, choice);
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

// How many vectors of one row of gradOutput are held in registers.
#define PULL_HELD_MAX 2

// A strip of gradInput, one vector wide: what is held of a row of windows serves all rows that it covers.
struct pull_strip {
  const int32_t *indices; // of the row of windows that is held next, from the first slot on
  const float *gradients;
  int64_t step;   // to the row after it
  int64_t second; // from the first slot to the second
  struct pull_choice choices[PULL_HELD_MAX];
  struct pull_sources held[PULL_HELD_MAX];
};

INLINE void pull_hold(struct pull_strip *strip, int64_t slot_count, int32_t width) {
  strip->held[0] = pull_load(strip->indices, strip->gradients, strip->choices[0], width);
  if (slot_count > 1) {
    strip->held[1] =
        pull_load(strip->indices + strip->second, strip->gradients + strip->second, strip->choices[1], width);
  }
  strip->indices += strip->step;
  strip->gradients += strip->step;
}

INLINE void pull_take_held(const struct pull_strip *strip, lanes *sums, lanes *taken, lanes position,
                           int64_t slot_count) {
  take(sums, taken, strip->held[0], position, strip->choices[0]);
  if (slot_count > 1) {
    take(sums, taken, strip->held[1], position, strip->choices[1]);
  }
}

INLINE struct pull_strip pull_strip_begin(const struct backward_pull *pull, int64_t plane, int64_t vector,
                                          int64_t slot_count) {
  const struct pull_table *table = pull->table;
  const struct pull_slot *slots = table->slot + vector * slot_count;
  const int64_t windows = plane * table->output_rows + table->row[pull->row_begin].begin - pull->output_begin;
  const int64_t first = windows * table->output_columns + slots[0].base;
  const struct pull_sources none = {lanes_every(0), lanes_every(0)};
  struct pull_strip strip = {
      .indices = (const int32_t *)pull->indices + first,
      .gradients = (const float *)pull->gradients + first,
      .step = table->output_columns,
      .held = {none, none},
  };
  strip.choices[0] = pull_choose(&table->pattern[slots[0].pattern]);
  if (slot_count > 1) {
    strip.choices[1] = pull_choose(&table->pattern[slots[1].pattern]);
    strip.second = slots[1].base - slots[0].base;
  }
  return strip;
}

INLINE void pull_rows_of_strip(const struct backward_pull *pull, int64_t plane, int64_t vector,
                               int64_t slot_count, int32_t width, lanes *taken, enum value_kind value) {
  const struct pull_table *table = pull->table;
  const int64_t row_bytes = table->columns * bytes_of(value);
  const int64_t row_begin = pull->row_begin, row_end = pull->row_end, rows = row_end - row_begin;
  const int64_t offset = plane * rows * row_bytes + vector * BACKWARD_LANES * bytes_of(value);
  int64_t bytes_left = pull->planes * rows * row_bytes - offset;
  unsigned char *to = (unsigned char *)pull->grad_input + offset;
  struct pull_strip strip = pull_strip_begin(pull, plane, vector, slot_count);
  const int64_t begin = row_begin * table->columns + vector * BACKWARD_LANES;
  lanes position = lanes_add(lanes_load(table->iota), lanes_every((int32_t)begin));
  const lanes down = lanes_every((int32_t)table->columns);
  int32_t next = table->row[row_begin].begin; // the row of windows that is held next
  for (int64_t row = row_begin; row < row_end; row++) {
    const struct pull_row windows = table->row[row];
    lanes sums = lanes_every(0);
    if (__builtin_expect(windows.count == 2 && windows.begin == next - 1, 1)) {
      pull_take_held(&strip, &sums, taken, position, slot_count);
      pull_hold(&strip, slot_count, width);
      pull_take_held(&strip, &sums, taken, position, slot_count);
      next++;
    } else {
      // Two rows have one row of windows in common at most, and leave none out.
      for (int32_t window = windows.begin; window < windows.begin + windows.count; window++) {
        if (window == next) {
          pull_hold(&strip, slot_count, width);
          next++;
        }
        pull_take_held(&strip, &sums, taken, position, slot_count);
      }
    }
    pull_store(to, bytes_left, sums, false, value);
    to += row_bytes;
    bytes_left -= row_bytes;
    position = lanes_add(position, down);
  }
}

INLINE int64_t pull_total(lanes taken) {
  int32_t counts[BACKWARD_LANES];
  lanes_store(counts, taken);
  int64_t total = 0;
  for (int lane = 0; lane < BACKWARD_LANES; lane++) {
    total += counts[lane];
  }
  return total;
}

INLINE int64_t pull_strips(const struct backward_pull *pull, int64_t slot_count, int32_t width,
                           enum value_kind value) {
  lanes taken = lanes_every(0);
  for (int64_t plane = 0; plane < pull->planes; plane++) {
    // What the last vector writes beyond a row is written again with the next row's first one.
    for (int64_t vector = pull->table->vectors; vector-- > 0;) {
      pull_rows_of_strip(pull, plane, vector, slot_count, width, &taken, value);
    }
  }
  return pull_total(taken);
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
      pull_row(pull, (const int32_t *)pull->indices + first, (const float *)pull->gradients + first, to,
               bytes_left, row, slot_count, width, &taken, value);
      to += row_bytes;
      bytes_left -= row_bytes;
    }
  }
  return pull_total(taken);
}

// Slots and width are constants in the loops of the usual shapes.
INLINE int64_t pull_typed(const struct backward_pull *pull, enum value_kind value) {
  const struct pull_table *table = pull->table;
  const bool two = table->slots_alike == 2;
  if (table->strips && !pull->streams) {
    return two ? pull_strips(pull, 2, 1, value) : pull_strips(pull, 1, 1, value);
  }
  switch (table->width) {
  case 0:
    return two ? pull_rows(pull, 2, 0, value) : pull_rows(pull, 0, 0, value);
  case 1:
    return two                       ? pull_rows(pull, 2, 1, value)
           : table->slots_alike == 1 ? pull_rows(pull, 1, 1, value)
                                     : pull_rows(pull, 0, 1, value);
  default:
    return two ? pull_rows(pull, 2, 2, value) : pull_rows(pull, 0, 2, value);
  }
}

#endif
