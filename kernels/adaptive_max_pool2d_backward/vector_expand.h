// The part of vector.c for windows of the same size that don't share a position: a vector of positions gets
// at most one gradient each, from windows near each other. It is included by vector.c alone, where vectors
// can be permuted.
#ifndef ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_VECTOR_EXPAND_H
#define ACLNN_KERNELS_ADAPTIVE_MAX_POOL2D_BACKWARD_VECTOR_EXPAND_H

struct expand_sums {
  lanes taken;
  lanes high; // all bits of 64-bit indices that were loaded
};

// The indices and gradients of a vector of positions.
struct expand_sources {
  lanes indices, gradients;
};

INLINE lanes expand_load_indices(const unsigned char *indices, lanes pattern, struct expand_sums *sums,
                                 enum index_kind index) {
  if (index == INDEX_INT32) {
    return lanes_permute(lanes_load(indices), pattern);
  }
  lanes low = lanes_load(indices), high = lanes_load(indices + sizeof low);
  sums->high = lanes_or(sums->high, lanes_or(low, high));
  return lanes_permute_wide(low, high, pattern);
}

INLINE struct expand_sources expand_load(const unsigned char *indices, const unsigned char *gradients,
                                         lanes pattern, struct expand_sums *sums, int64_t value_bytes,
                                         enum index_kind index) {
  struct expand_sources sources;
  sources.indices = expand_load_indices(indices, pattern, sums, index);
  lanes loaded = value_bytes == 4 ? lanes_load(gradients) : lanes_widen(gradients);
  sources.gradients = lanes_permute(loaded, pattern);
  return sources;
}

// The same where half as many windows as lanes are enough; no more are loaded.
INLINE struct expand_sources expand_load_half(const unsigned char *indices, const unsigned char *gradients,
                                              lanes pattern, struct expand_sums *sums, int64_t value_bytes,
                                              enum index_kind index) {
  struct expand_sources sources;
  if (index == INDEX_INT64) {
    lanes loaded = lanes_load(indices);
    sums->high = lanes_or(sums->high, loaded);
    sources.indices = lanes_permute_half_wide(loaded, pattern);
  } else {
    sources.indices = lanes_permute(lanes_load_half(indices), pattern);
  }
  lanes loaded = value_bytes == 4 ? lanes_load_half(gradients) : lanes_widen_half(gradients);
  sources.gradients = lanes_permute(loaded, pattern);
  return sources;
}

INLINE void expand_store(unsigned char *to, struct expand_sources sources, lanes position,
                         struct expand_sums *sums, bool streams, int64_t value_bytes) {
  hits hit = lanes_equal(sources.indices, position);
  sums->taken = lanes_count(sums->taken, hit);
  if (value_bytes == 4) {
    lanes_store_hit_floats(to, hit, sources.gradients, streams);
  } else {
    lanes_store_hit_halves(to, hit, sources.gradients, streams);
  }
}

// The gradients that were taken; 0 if an index isn't one at all, which its lower half doesn't show.
INLINE int64_t expand_taken(const struct expand_sums *sums, enum index_kind index) {
  int32_t taken[BACKWARD_LANES], bits[BACKWARD_LANES];
  lanes_store(taken, sums->taken);
  lanes_store(bits, sums->high);
  int64_t total = 0;
  uint32_t high = 0;
  for (int lane = 0; lane < BACKWARD_LANES; lane++) {
    total += taken[lane];
    high |= lane % 2 == 1 ? (uint32_t)bits[lane] : 0;
  }
  return index == INDEX_INT64 && high != 0 ? 0 : total;
}

// Of rows that are whole vectors: what is the same for all of them.
struct expand_shape {
  int64_t columns, output_columns;
  int64_t step; // windows over a vector
  lanes pattern, iota;
};

// `rows` rows of one row of windows: all of a vector's before the next vector.
INLINE void expand_window_row(const struct expand_shape *shape, const unsigned char *indices,
                              const unsigned char *gradients, unsigned char *to, int32_t position,
                              int64_t rows, struct expand_sums *sums, bool streams, int64_t value_bytes,
                              enum index_kind index) {
  const int64_t columns = shape->columns, index_bytes = index == INDEX_INT64 ? 8 : 4;
  const int64_t last = shape->output_columns - BACKWARD_LANES / 2;
  const lanes down = lanes_every((int32_t)columns);
  lanes positions = lanes_add(shape->iota, lanes_every(position));
  int64_t window = 0;
  for (int64_t column = 0; column < columns; column += BACKWARD_LANES) {
    // Near the end of the row earlier windows are loaded, so that none beyond it is.
    int64_t beyond = window > last ? window - last : 0;
    int64_t base = window - beyond;
    lanes chosen = beyond > 0 ? lanes_add(shape->pattern, lanes_every((int32_t)beyond)) : shape->pattern;
    struct expand_sources sources = expand_load_half(
        indices + base * index_bytes, gradients + base * value_bytes, chosen, sums, value_bytes, index);
    lanes below = positions;
    unsigned char *at = to + column * value_bytes;
    for (int64_t row = 0; row < rows; row++) {
      expand_store(at, sources, below, sums, streams, value_bytes);
      at += columns * value_bytes;
      below = lanes_add(below, down);
    }
    positions = lanes_add(positions, lanes_every(BACKWARD_LANES));
    window += shape->step;
  }
}

// Rows that are whole vectors, each of which the same pattern fills.
INLINE int64_t expand_rows(const struct backward_expand *expand, bool streams, int64_t value_bytes,
                           enum index_kind index) {
  const struct expand_table *table = expand->table;
  const struct expand_shape shape = {
      .columns = table->columns,
      .output_columns = table->output_columns,
      .step = BACKWARD_LANES / table->window_columns,
      .pattern = lanes_load(table->lanes[0]),
      .iota = lanes_load(table->iota),
  };
  const int64_t index_bytes = index == INDEX_INT64 ? 8 : 4;
  const int64_t row_begin = expand->row_begin, row_end = expand->row_end, window_rows = table->window_rows;
  const int64_t first_end = row_begin - row_begin % window_rows + window_rows, planes = expand->planes;
  const unsigned char *indices = expand->indices, *gradients = expand->gradients;
  unsigned char *to = expand->grad_input;
  struct expand_sums sums = {lanes_every(0), lanes_every(0)};
  for (int64_t plane = 0; plane < planes; plane++) {
    int64_t rows, window_end = first_end;
    for (int64_t row = row_begin; row < row_end; row += rows) {
      rows = (window_end < row_end ? window_end : row_end) - row;
      window_end += window_rows;
      int32_t position = (int32_t)(row * shape.columns);
      if (rows == 2) {
        expand_window_row(&shape, indices, gradients, to, position, 2, &sums, streams, value_bytes, index);
      } else {
        expand_window_row(&shape, indices, gradients, to, position, rows, &sums, streams, value_bytes, index);
      }
      indices += shape.output_columns * index_bytes;
      gradients += shape.output_columns * value_bytes;
      to += rows * shape.columns * value_bytes;
    }
  }
  return expand_taken(&sums, index);
}

// What the walk over whole planes, one vector after the other, remembers.
struct expand_walk {
  int64_t vector; // of the group
  int64_t group;  // its first gradient
  lanes positions;
};

// The positions of the next vector.
INLINE lanes expand_next(lanes positions, int64_t plane_elements) {
  lanes next = lanes_add(positions, lanes_every(BACKWARD_LANES));
  // Beyond the plane the next one begins; before, the difference wraps and is larger.
  lanes wrapped = lanes_add(positions, lanes_every((int32_t)(BACKWARD_LANES - plane_elements)));
  return lanes_least(next, wrapped);
}

INLINE void expand_advance(const struct expand_table *table, struct expand_walk *walk) {
  walk->positions = expand_next(walk->positions, table->plane_elements);
  if (++walk->vector == table->vectors) {
    walk->vector = 0;
    walk->group += table->group_gradients;
  }
}

// The last vectors: neither gradients nor positions may be touched beyond the ends.
INLINE void expand_end(const struct backward_expand *expand, struct expand_walk *walk, int64_t done,
                       struct expand_sums *sums, int64_t value_bytes, enum index_kind index) {
  const struct expand_table *table = expand->table;
  const int64_t index_bytes = index == INDEX_INT64 ? 8 : 4;
  const int64_t elements = expand->planes * table->plane_elements;
  const int64_t gradients = expand->planes * table->plane_gradients;
  for (; done < elements; done += BACKWARD_LANES) {
    unsigned char some_indices[BACKWARD_LANES * 8], some_gradients[BACKWARD_LANES * 4] = {0};
    unsigned char stored[BACKWARD_LANES * 4];
    int64_t base = walk->group + table->base[walk->vector];
    int64_t left = gradients - base < BACKWARD_LANES ? gradients - base : BACKWARD_LANES;
    int64_t wanted = elements - done < BACKWARD_LANES ? elements - done : BACKWARD_LANES;
    // No position is that high, and the index isn't illegal either.
    const int64_t wide_nowhere = INT32_MAX;
    const int32_t nowhere = INT32_MAX;
    for (int64_t i = 0; i < BACKWARD_LANES; i++) {
      memcpy(some_indices + i * index_bytes,
             index == INDEX_INT64 ? (const void *)&wide_nowhere : (const void *)&nowhere,
             (size_t)index_bytes);
    }
    memcpy(some_indices, (const unsigned char *)expand->indices + base * index_bytes,
           (size_t)(left * index_bytes));
    memcpy(some_gradients, (const unsigned char *)expand->gradients + base * value_bytes,
           (size_t)(left * value_bytes));
    struct expand_sources sources = expand_load(
        some_indices, some_gradients, lanes_load(table->lanes[walk->vector]), sums, value_bytes, index);
    expand_store(stored, sources, walk->positions, sums, false, value_bytes);
    memcpy((unsigned char *)expand->grad_input + done * value_bytes, stored, (size_t)(wanted * value_bytes));
    expand_advance(table, walk);
  }
}

// So many whole groups, which neither read nor write beyond the ends.
INLINE void expand_groups(const struct backward_expand *expand, struct expand_walk *walk, int64_t groups,
                          struct expand_sums *sums, bool half, bool streams, int64_t value_bytes,
                          enum index_kind index) {
  const struct expand_table *table = expand->table;
  const int64_t index_bytes = index == INDEX_INT64 ? 8 : 4, vectors = table->vectors;
  const int64_t plane_elements = table->plane_elements, group_gradients = table->group_gradients;
  const unsigned char *indices = expand->indices, *gradients = expand->gradients;
  unsigned char *to = expand->grad_input;
  lanes positions = walk->positions;
  for (int64_t group = 0; group < groups; group++) {
    for (int64_t vector = 0; vector < vectors; vector++) {
      const int64_t base = table->base[vector];
      const unsigned char *some_indices = indices + base * index_bytes;
      const unsigned char *some_gradients = gradients + base * value_bytes;
      const lanes pattern = lanes_load(table->lanes[vector]);
      struct expand_sources sources =
          half ? expand_load_half(some_indices, some_gradients, pattern, sums, value_bytes, index)
               : expand_load(some_indices, some_gradients, pattern, sums, value_bytes, index);
      expand_store(to, sources, positions, sums, streams, value_bytes);
      to += BACKWARD_LANES * value_bytes;
      positions = expand_next(positions, plane_elements);
    }
    indices += group_gradients * index_bytes;
    gradients += group_gradients * value_bytes;
  }
  walk->group = groups * group_gradients;
  walk->positions = positions;
}

// Whole planes as if they were one row.
INLINE int64_t expand_planes(const struct backward_expand *expand, bool streams, int64_t value_bytes,
                             enum index_kind index) {
  const struct expand_table *table = expand->table;
  const int64_t index_bytes = index == INDEX_INT64 ? 8 : 4;
  const unsigned char *indices = expand->indices, *gradients = expand->gradients;
  unsigned char *to = expand->grad_input;
  const int64_t elements = expand->planes * table->plane_elements;
  const int64_t last_base = expand->planes * table->plane_gradients - BACKWARD_LANES;
  struct expand_sums sums = {lanes_every(0), lanes_every(0)};
  struct expand_walk walk = {0, 0, lanes_load(table->iota)};
  int64_t groups = elements / (table->vectors * BACKWARD_LANES);
  while (groups > 0 && (groups - 1) * table->group_gradients + table->last_base > last_base) {
    groups--;
  }
  if (table->half) {
    expand_groups(expand, &walk, groups, &sums, true, streams, value_bytes, index);
  } else {
    expand_groups(expand, &walk, groups, &sums, false, streams, value_bytes, index);
  }
  int64_t done = groups * table->vectors * BACKWARD_LANES;
  for (; elements - done >= BACKWARD_LANES; done += BACKWARD_LANES) {
    int64_t base = walk.group + table->base[walk.vector];
    if (__builtin_expect(base > last_base, 0)) {
      break;
    }
    struct expand_sources sources =
        expand_load(indices + base * index_bytes, gradients + base * value_bytes,
                    lanes_load(table->lanes[walk.vector]), &sums, value_bytes, index);
    expand_store(to + done * value_bytes, sources, walk.positions, &sums, streams, value_bytes);
    expand_advance(table, &walk);
  }
  expand_end(expand, &walk, done, &sums, value_bytes, index);
  return expand_taken(&sums, index);
}

INLINE int64_t expand_typed(const struct backward_expand *expand, int64_t value_bytes,
                            enum index_kind index) {
  if (expand->table->vectors == 0) {
    return expand->streams ? expand_rows(expand, true, value_bytes, index)
                           : expand_rows(expand, false, value_bytes, index);
  }
  return expand->streams ? expand_planes(expand, true, value_bytes, index)
                         : expand_planes(expand, false, value_bytes, index);
}

#endif
