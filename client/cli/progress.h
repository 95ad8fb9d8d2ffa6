// A line on the terminal that shows how far a large transfer has come.
//
// Draws on stderr, only if that is a terminal and only for transfers worth it. One thread.
#ifndef ACLNN_CLIENT_CLI_PROGRESS_H
#define ACLNN_CLIENT_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
  bool terminal;
  bool drawn;
  int64_t drawn_at_ns;
};

void progress_init(struct progress *progress);
// An aclnn_progress; context is the struct progress.
void progress_update(void *context, int64_t sent, int64_t sent_total, int64_t received,
                     int64_t received_total);
// Wipes the line.
void progress_end(struct progress *progress);

#endif
