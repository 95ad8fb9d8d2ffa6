// The part of vector.c that pulls rows of gradInput in their order, from tensors that don't stay in a cache:
// each is read and written plainly, once, from its beginning to its end, as hardware prefetches it. What is
// loaded of a row of windows is held, permuted, for all rows of gradInput that it covers. It is included by
// vector.c alone, where vectors can be permuted.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_VECTOR_PULL_HELD_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_VECTOR_PULL_HELD_H

// A slot of a row: what is the same for all rows, and what is held of a row of windows. All of it lies
// together: apart by a multiple of 4 KiB, loads would wait for stores that they have nothing to do with.
struct pull_held {
  lanes pattern;
  lanes nowhere; // no position, in the lanes without a window
  struct expand_sources sources;
  int64_t base;
};

// A row of gradInput, and the row of windows that is loaded next.
struct pull_held_row {
  const unsigned char *indices, *gradients;
  unsigned char *to;
  int64_t bytes_left;
  lanes position;
};

INLINE void pull_held_begin(struct pull_held *held, const struct pull_table *table) {
  for (int64_t slot = 0; slot < table->slots; slot++) {
    const struct pull_pattern *pattern = &table->pattern[table->slot[slot].pattern];
    held[slot].base = table->slot[slot].base;
    held[slot].pattern = lanes_load(pattern->lanes);
    held[slot].nowhere = lanes_subtract(lanes_every(-1), lanes_load(pattern->active));
  }
}

INLINE void pull_held_load(struct pull_held *held, const struct pull_held_row *row, struct expand_sums *sums,
                           enum value_kind value, enum index_kind index) {
  const unsigned char *indices = row->indices + held->base * (index == INDEX_INT64 ? 8 : 4);
  const unsigned char *gradients = row->gradients + held->base * bytes_of(value);
  lanes loaded = value == VALUE_FP32   ? lanes_load(gradients)
                 : value == VALUE_FP16 ? lanes_load_fp16(gradients)
                                       : lanes_load_bf16(gradients);
  lanes pattern = held->pattern;
  held->sources.indices = lanes_or(expand_load_indices(indices, pattern, sums, index), held->nowhere);
  held->sources.gradients = lanes_permute(loaded, pattern);
}

// Of the slots of one vector.
INLINE void pull_held_take(const struct pull_held *held, int64_t slot_count, lanes position, lanes *total,
                           struct expand_sums *sums) {
  for (int64_t slot = 0; slot < slot_count; slot++) {
    struct expand_sources sources = held[slot].sources;
    // Compared and added from registers, as in pull_load().
    lanes_keep(&sources.indices);
    lanes_keep(&sources.gradients);
    hits hit = lanes_equal(sources.indices, position);
    sums->taken = lanes_count(sums->taken, hit);
    *total = lanes_add_hit_floats(*total, hit, sources.gradients);
  }
}

// One row: from what is held, if it `holds` a row of windows over it, then from the next row of windows, if
// that `loads`. It may all be written if it is `whole`.
INLINE void pull_held_vectors(struct pull_held *held, struct pull_held_row row, int64_t slots, bool holds,
                              bool loads, bool whole, bool streams, struct expand_sums *sums,
                              int64_t slot_count, enum value_kind value, enum index_kind index) {
  const int64_t vector_bytes = BACKWARD_LANES * bytes_of(value);
  for (struct pull_held *end = held + slots; held < end; held += slot_count) {
    lanes total = lanes_every(0);
    if (holds) {
      pull_held_take(held, slot_count, row.position, &total, sums);
    }
    if (loads) {
      for (int64_t slot = 0; slot < slot_count; slot++) {
        pull_held_load(&held[slot], &row, sums, value, index);
      }
      pull_held_take(held, slot_count, row.position, &total, sums);
    }
    pull_store(row.to, whole ? vector_bytes : row.bytes_left, total, streams, value);
    row.to += vector_bytes;
    row.bytes_left -= vector_bytes;
    row.position = lanes_add(row.position, lanes_every(BACKWARD_LANES));
  }
}

INLINE void pull_held_next(struct pull_held_row *row, const struct pull_table *table, enum value_kind value,
                           enum index_kind index) {
  row->indices += table->output_columns * (index == INDEX_INT64 ? 8 : 4);
  row->gradients += table->output_columns * bytes_of(value);
}

INLINE void pull_held_plane(const struct backward_pull *pull, struct pull_held *held,
                            struct pull_held_row row, struct expand_sums *sums, bool streams,
                            int64_t slot_count, enum value_kind value, enum index_kind index) {
  const struct pull_table *table = pull->table;
  const int64_t slots = table->slots, row_bytes = table->columns * bytes_of(value);
  const int64_t stored_bytes = table->vectors * BACKWARD_LANES * bytes_of(value);
  const lanes down = lanes_every((int32_t)table->columns);
  int32_t next = (int32_t)pull->output_begin; // the row of windows that is loaded next
  if (table->row[pull->row_begin].count > 1) {
    for (int64_t slot = 0; slot < slots; slot++) {
      pull_held_load(&held[slot], &row, sums, value, index);
    }
    pull_held_next(&row, table, value, index);
    next++;
  }
  for (int64_t i = pull->row_begin; i < pull->row_end; i++) {
    const struct pull_row windows = table->row[i];
    const bool holds = windows.begin < next;
    const bool loads = windows.begin + windows.count > next;
    // What the last vector writes beyond a row is written again with the next one.
    if (__builtin_expect(row.bytes_left < stored_bytes, 0)) {
      pull_held_vectors(held, row, slots, holds, loads, false, streams, sums, slot_count, value, index);
    } else if (__builtin_expect(holds && loads, 1)) {
      pull_held_vectors(held, row, slots, true, true, true, streams, sums, slot_count, value, index);
    } else if (loads) {
      pull_held_vectors(held, row, slots, false, true, true, streams, sums, slot_count, value, index);
    } else {
      pull_held_vectors(held, row, slots, true, false, true, streams, sums, slot_count, value, index);
    }
    if (loads) {
      pull_held_next(&row, table, value, index);
      next++;
    }
    row.to += row_bytes;
    row.bytes_left -= row_bytes;
    row.position = lanes_add(row.position, down);
  }
}

INLINE int64_t pull_held_planes(const struct backward_pull *pull, bool streams, int64_t slot_count,
                                enum value_kind value, enum index_kind index) {
  const struct pull_table *table = pull->table;
  const int64_t plane_bytes = (pull->row_end - pull->row_begin) * table->columns * bytes_of(value);
  const int64_t plane_gradients = table->output_rows * table->output_columns;
  const lanes first = lanes_every((int32_t)(pull->row_begin * table->columns));
  struct pull_held held[PULL_HELD_SLOTS];
  struct expand_sums sums = {lanes_every(0), lanes_every(0)};
  struct pull_held_row row = {
      .indices = pull->indices,
      .gradients = pull->gradients,
      .to = pull->grad_input,
      .bytes_left = pull->planes * plane_bytes,
      .position = lanes_add(lanes_load(table->iota), first),
  };
  pull_held_begin(held, table);
  for (int64_t plane = 0; plane < pull->planes; plane++) {
    pull_held_plane(pull, held, row, &sums, streams, slot_count, value, index);
    row.indices += plane_gradients * (index == INDEX_INT64 ? 8 : 4);
    row.gradients += plane_gradients * bytes_of(value);
    row.to += plane_bytes;
    row.bytes_left -= plane_bytes;
  }
  return expand_taken(&sums, index);
}

INLINE int64_t pull_held_typed(const struct backward_pull *pull, enum value_kind value,
                               enum index_kind index) {
  if (pull->table->slots_alike == 2) {
    return pull->streams ? pull_held_planes(pull, true, 2, value, index)
                         : pull_held_planes(pull, false, 2, value, index);
  }
  return pull->streams ? pull_held_planes(pull, true, 1, value, index)
                       : pull_held_planes(pull, false, 1, value, index);
}

#endif
