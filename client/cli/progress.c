#include "client/cli/progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

// Smaller transfers are over before anybody has looked.
#define WORTH_DRAWING_BYTES ((int64_t)16 << 20)
#define DRAW_INTERVAL_NS 100000000LL
#define BAR_WIDTH 30

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000LL + now.tv_nsec;
}

void progress_init(struct progress *progress) {
  *progress = (struct progress){.terminal = isatty(STDERR_FILENO) == 1};
}

static void draw(const char *what, int64_t done, int64_t total) {
  char bar[BAR_WIDTH + 1];
  int filled = (int)((double)done / (double)total * BAR_WIDTH);
  for (int i = 0; i < BAR_WIDTH; i++) {
    bar[i] = i < filled ? '#' : '.';
  }
  bar[BAR_WIDTH] = '\0';
  fprintf(stderr, "\r%-9s [%s] %3d%%  %lld of %lld MiB\033[K", what, bar,
          (int)((double)done / (double)total * 100), (long long)(done >> 20), (long long)(total >> 20));
  fflush(stderr);
}

void progress_update(void *context, int64_t sent, int64_t sent_total, int64_t received,
                     int64_t received_total) {
  struct progress *progress = context;
  if (!progress->terminal || sent_total + received_total < WORTH_DRAWING_BYTES) {
    return;
  }
  int64_t now = now_ns();
  if (progress->drawn && now - progress->drawn_at_ns < DRAW_INTERVAL_NS) {
    return;
  }
  progress->drawn = true;
  progress->drawn_at_ns = now;
  if (sent < sent_total || received == 0) {
    draw(sent < sent_total ? "sending" : "waiting", sent, sent_total > 0 ? sent_total : 1);
  } else {
    draw("receiving", received, received_total > 0 ? received_total : 1);
  }
}

void progress_end(struct progress *progress) {
  if (progress->drawn) {
    fputs("\r\033[K", stderr);
    fflush(stderr);
  }
}
