// Timers of one length in order of their expiry: the newest goes to the end, so everything is O(1).
//
// A list and its timers belong to one thread. A timer is part of the object that it times, and must be
// disarmed before that object goes.
#ifndef ACLNN_SERVER_RPC_TIMER_LIST_H
#define ACLNN_SERVER_RPC_TIMER_LIST_H

#include <stdbool.h>
#include <stdint.h>

struct timer_entry {
  void (*expired)(struct timer_entry *timer); // called with the timer disarmed
  // private
  struct timer_entry *_next, *_previous; // NULL, both: not armed
  int64_t _expires_ns;
};

struct timer_list {
  int64_t length_ns;
  // private
  struct timer_entry _ends;
};

void timer_list_init(struct timer_list *list, int64_t length_ns);

// Starts the timer anew, armed or not.
void timer_list_arm(struct timer_list *list, struct timer_entry *timer, int64_t now_ns);
// An unarmed timer is fine.
void timer_list_disarm(struct timer_entry *timer);
bool timer_list_is_armed(const struct timer_entry *timer);

// When the next timer expires; INT64_MAX if none is armed.
int64_t timer_list_next(const struct timer_list *list);

// Calls those that have expired.
void timer_list_expire(struct timer_list *list, int64_t now_ns);

#endif
