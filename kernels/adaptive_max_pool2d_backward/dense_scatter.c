// Scatters gradients into zeros: of whole planes, or of rows of large ones.
#include "kernels/adaptive_max_pool2d_backward/dense_job.h"

#include <string.h>

// One plane of 16-bit sums, whose lines begin and end with zeros.
static void sum_plane(struct dense_job *job, size_t slot, struct backward_line line) {
  line.planes = 1;
  if (!job->slots[slot].zero_sums) {
    memset(line.sums, 0, (size_t)line.owned * sizeof(float));
  }
  job->kernels->add(&line);
  job->slots[slot].zero_sums = job->sparse;
  if (job->sparse) {
    memset(line.grad_input, 0, (size_t)(line.owned * job->value_bytes));
    job->kernels->round_named(&line);
    job->kernels->zero_named(&line);
  } else {
    job->kernels->round(line.grad_input, line.sums, line.owned);
  }
}

static bool are_legal(const struct dense_job *job, const struct backward_line *line) {
  return job->kernels->are_within(line->indices, line->planes * line->count, 0, line->owned);
}

// False if an index is illegal.
static bool scatter_16_bit(struct dense_job *job, size_t slot, struct backward_line line, bool zero) {
  size_t bytes = (size_t)(line.planes * line.owned * job->value_bytes);
  bool few = line.count <= BACKWARD_FEW;
  if (job->combines && !job->slots[slot].scatters) {
    if (dense_combine_planes(job, slot, line, zero)) {
      return true;
    }
    job->slots[slot].scatters = true;
    zero = false;
  }
  if (!are_legal(job, &line)) {
    return false;
  }
  if (!zero && (job->disjoint || few)) {
    memset(line.grad_input, 0, bytes);
  }
  if (job->disjoint && job->kernels->store(&line)) {
    return true;
  }
  if (few && !job->disjoint) {
    job->kernels->store_few(&line);
    return true;
  }
  for (int64_t plane = 0; plane < line.planes; plane++) {
    sum_plane(job, slot, line);
    line.gradients = (const unsigned char *)line.gradients + line.count * job->value_bytes;
    line.indices = (const unsigned char *)line.indices + line.count * job->index_bytes;
    line.grad_input = (unsigned char *)line.grad_input + line.owned * job->value_bytes;
  }
  return true;
}

static bool scatter_floats(const struct dense_job *job, struct backward_line *line) {
  line->sums = line->grad_input;
  if (!are_legal(job, line)) {
    return false;
  }
  job->kernels->add(line);
  return true;
}

static void scatter_group(struct dense_job *job, size_t slot, int64_t plane, int64_t planes) {
  int64_t first = plane * job->plane_gradients;
  struct backward_line line = {
      .gradients = job->gradients + first * job->value_bytes,
      .indices = job->indices + first * job->index_bytes,
      .count = job->plane_gradients,
      .owned = job->plane_elements,
      .planes = planes,
      .sums = dense_slot_sums(job, slot),
  };
  unsigned char *to = job->grad_input + plane * job->plane_elements * job->value_bytes;
  int64_t bytes = planes * job->plane_elements * job->value_bytes;
  bool is_float = job->value_bytes == sizeof(float);
  bool *zero = is_float ? &job->slots[slot].zero_sums : &job->slots[slot].zero_stage;
  line.grad_input = to;
  if (job->streams) {
    unsigned char *scratch =
        is_float ? (unsigned char *)dense_slot_sums(job, slot) : dense_slot_stage(job, slot);
    if (!*zero) {
      int64_t most = job->plan->stream_planes * job->plane_elements * job->value_bytes;
      memset(scratch, 0, (size_t)(most + CACHE_LINE));
      *zero = true;
    }
    line.grad_input = dense_like(scratch, to);
  } else if (is_float) {
    memset(to, 0, (size_t)bytes);
  }
  if (!(is_float ? scatter_floats(job, &line) : scatter_16_bit(job, slot, line, job->streams))) {
    dense_refuse(job);
    return;
  }
  if (job->streams) {
    // The fewer gradients, the less it takes to find them again.
    if (job->few_lines) {
      job->kernels->stream(to, line.grad_input, bytes);
      job->kernels->clear(&line);
    } else {
      job->kernels->move(to, line.grad_input, bytes);
    }
  }
}

void dense_scatter_planes(struct dense_job *job, size_t slot, int64_t plane, int64_t planes) {
  int64_t at_once = job->streams ? job->plan->stream_planes : planes;
  for (int64_t done = 0; done < planes && !dense_is_over(job); done += at_once) {
    scatter_group(job, slot, plane + done, planes - done < at_once ? planes - done : at_once);
  }
}

// Lines of a piece of a band: the rows [begin, end) of gradOutput whose windows reach into it.
struct piece {
  struct backward_line line; // of row `begin`
  int64_t begin, end;
};

static struct backward_line line_of_row(const struct dense_job *job, const struct piece *piece, int64_t row) {
  struct backward_line line = piece->line;
  int64_t gradients = (row - piece->begin) * line.count;
  line.gradients = (const unsigned char *)line.gradients + gradients * job->value_bytes;
  line.indices = (const unsigned char *)line.indices + gradients * job->index_bytes;
  return line;
}

// Each index must lie in the rows of its window: then no other row's index is one of this piece.
static bool check_piece(struct dense_job *job, const struct piece *piece) {
  int64_t rows = job->plan->grad_input.rows, columns = job->plan->grad_input.columns;
  int64_t output_rows = job->plan->grad_output.rows;
  for (int64_t row = piece->begin; row < piece->end; row++) {
    struct backward_line line = line_of_row(job, piece, row);
    int64_t lower = pooling_window_begin(row, rows, output_rows) * columns;
    int64_t upper = pooling_window_end(row, rows, output_rows) * columns;
    if (dense_is_over(job)) {
      return false;
    }
    if (!job->kernels->are_within(line.indices, line.count, lower, upper)) {
      dense_refuse(job);
      return false;
    }
  }
  return true;
}

static void each_row(const struct dense_job *job, const struct piece *piece,
                     void (*kernel)(const struct backward_line *line)) {
  for (int64_t row = piece->begin; row < piece->end && !dense_is_over(job); row++) {
    struct backward_line line = line_of_row(job, piece, row);
    kernel(&line);
  }
}

// Adds all rows. Only those whose windows reach beyond the piece have indices that aren't its own.
static void add_rows(const struct dense_job *job, const struct piece *piece) {
  const int64_t rows = job->plan->grad_input.rows, columns = job->plan->grad_input.columns;
  const int64_t output_rows = job->plan->grad_output.rows;
  const int64_t first = piece->line.first, end = first + piece->line.owned;
  for (int64_t row = piece->begin; row < piece->end && !dense_is_over(job); row++) {
    struct backward_line line = line_of_row(job, piece, row);
    bool inside = pooling_window_begin(row, rows, output_rows) * columns >= first &&
                  pooling_window_end(row, rows, output_rows) * columns <= end;
    if (inside) {
      job->kernels->add(&line);
    } else {
      job->kernels->add_owned(&line);
    }
  }
}

static void scatter_piece_16_bit(struct dense_job *job, size_t slot, const struct piece *piece) {
  size_t bytes = (size_t)(piece->line.owned * job->value_bytes);
  if (job->disjoint || job->sparse) {
    memset(piece->line.grad_input, 0, bytes);
  }
  if (job->disjoint) {
    bool single = true;
    for (int64_t row = piece->begin; row < piece->end && single && !dense_is_over(job); row++) {
      struct backward_line line = line_of_row(job, piece, row);
      single = job->kernels->store_owned(&line);
    }
    if (single) {
      return;
    }
    memset(piece->line.grad_input, 0, bytes);
  }
  if (!job->slots[slot].zero_sums) {
    memset(piece->line.sums, 0, (size_t)(job->piece_rows * job->plan->grad_input.columns) * sizeof(float));
  }
  add_rows(job, piece);
  job->slots[slot].zero_sums = job->sparse;
  if (job->sparse) {
    each_row(job, piece, job->kernels->round_named);
    each_row(job, piece, job->kernels->zero_named);
  } else {
    job->kernels->round(piece->line.grad_input, piece->line.sums, piece->line.owned);
  }
}

static struct piece piece_of(const struct dense_job *job, size_t slot, int64_t plane, int64_t row_begin,
                             int64_t row_end) {
  const struct plane_view *grad_input = &job->plan->grad_input, *grad_output = &job->plan->grad_output;
  struct piece piece = {
      .begin = pooling_first_output(row_begin, grad_input->rows, grad_output->rows),
      .end = pooling_end_output(row_end - 1, grad_input->rows, grad_output->rows),
  };
  int64_t first = plane * job->plane_gradients + piece.begin * grad_output->columns;
  int64_t offset = plane * job->plane_elements + row_begin * grad_input->columns;
  piece.line = (struct backward_line){
      .gradients = job->gradients + first * job->value_bytes,
      .indices = job->indices + first * job->index_bytes,
      .count = grad_output->columns,
      .sums = dense_slot_sums(job, slot),
      .grad_input = job->grad_input + offset * job->value_bytes,
      .first = row_begin * grad_input->columns,
      .owned = (row_end - row_begin) * grad_input->columns,
      .planes = 1,
  };
  return piece;
}

static void scatter_piece(struct dense_job *job, size_t slot, int64_t plane, int64_t row_begin,
                          int64_t row_end) {
  struct piece piece = piece_of(job, slot, plane, row_begin, row_end);
  unsigned char *to = piece.line.grad_input;
  if (!check_piece(job, &piece)) {
    return;
  }
  if (job->value_bytes != sizeof(float)) {
    scatter_piece_16_bit(job, slot, &piece);
    return;
  }
  int64_t bytes = piece.line.owned * job->value_bytes;
  if (!job->streams) {
    piece.line.sums = (float *)to;
    memset(to, 0, (size_t)bytes);
    add_rows(job, &piece);
    return;
  }
  if (!job->slots[slot].zero_sums) {
    memset(dense_slot_sums(job, slot), 0,
           (size_t)(job->piece_rows * job->plan->grad_input.columns) * sizeof(float) + CACHE_LINE);
    job->slots[slot].zero_sums = true;
  }
  piece.line.sums = (float *)dense_like((unsigned char *)dense_slot_sums(job, slot), to);
  add_rows(job, &piece);
  job->kernels->move(to, piece.line.sums, bytes);
}

void dense_scatter_band(struct dense_job *job, size_t slot, int64_t plane, int64_t row_begin,
                        int64_t row_end) {
  if (job->combines && !job->slots[slot].scatters) {
    struct piece band = piece_of(job, slot, plane, row_begin, row_end);
    if (dense_combine_rows(job, slot, band.line, band.begin, band.end)) {
      return;
    }
    job->slots[slot].scatters = true;
  }
  for (int64_t row = row_begin; row < row_end && !dense_is_over(job); row += job->piece_rows) {
    scatter_piece(job, slot, plane, row, row_end - row < job->piece_rows ? row_end : row + job->piece_rows);
  }
}
