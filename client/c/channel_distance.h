// How far away a server is, judged by the quickest of its replies.
//
// gRPC's estimate of the window lets downloads over a long way fill it. On a short way it costs a quarter of
// their rate, as received data spread over more memory than caches hold, and now and then much more, when
// that memory has to be taken from the system first. A channel's setting can't change, so it has to be known
// which way it is. Any thread.
#ifndef ACLNN_CLIENT_C_CHANNEL_DISTANCE_H
#define ACLNN_CLIENT_C_CHANNEL_DISTANCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// Without the estimate a connection takes 1 MiB in this time, which is more than 4 Gbit/s.
#define CHANNEL_FAR_NS 2000000

struct channel_distance {
  atomic_int_fast64_t _quickest_ns;
};

void channel_distance_init(struct channel_distance *distance);
// A reply came so long after what it replies to was sent: the way both ways, and what the server did.
void channel_distance_learn(struct channel_distance *distance, int64_t reply_ns);
// False as long as nothing was learned.
bool channel_distance_is_far(const struct channel_distance *distance);
// Whether another reply may change that: what is near stays so.
bool channel_distance_is_open(const struct channel_distance *distance);

#endif
