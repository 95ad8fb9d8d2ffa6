#include "client/c/channel_distance.h"

#define UNKNOWN INT64_MAX

void channel_distance_init(struct channel_distance *distance) {
  atomic_init(&distance->_quickest_ns, UNKNOWN);
}

void channel_distance_learn(struct channel_distance *distance, int64_t reply_ns) {
  int_fast64_t quickest_ns = atomic_load_explicit(&distance->_quickest_ns, memory_order_relaxed);
  while (reply_ns < quickest_ns &&
         !atomic_compare_exchange_weak_explicit(&distance->_quickest_ns, &quickest_ns, reply_ns,
                                                memory_order_relaxed, memory_order_relaxed)) {
  }
}

bool channel_distance_is_far(const struct channel_distance *distance) {
  int_fast64_t quickest_ns = atomic_load_explicit(&distance->_quickest_ns, memory_order_relaxed);
  return quickest_ns != UNKNOWN && quickest_ns > CHANNEL_FAR_NS;
}

bool channel_distance_is_open(const struct channel_distance *distance) {
  return atomic_load_explicit(&distance->_quickest_ns, memory_order_relaxed) > CHANNEL_FAR_NS;
}
