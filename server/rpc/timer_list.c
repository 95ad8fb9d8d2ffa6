#include "server/rpc/timer_list.h"

#include <stddef.h>

void timer_list_init(struct timer_list *list, int64_t length_ns) {
  list->length_ns = length_ns;
  list->_ends._next = list->_ends._previous = &list->_ends;
}

void timer_list_disarm(struct timer_entry *timer) {
  if (timer->_next == NULL) {
    return;
  }
  timer->_next->_previous = timer->_previous;
  timer->_previous->_next = timer->_next;
  timer->_next = timer->_previous = NULL;
}

void timer_list_arm(struct timer_list *list, struct timer_entry *timer, int64_t now_ns) {
  timer_list_disarm(timer);
  timer->_expires_ns = now_ns > INT64_MAX - list->length_ns ? INT64_MAX : now_ns + list->length_ns;
  timer->_previous = list->_ends._previous;
  timer->_next = &list->_ends;
  timer->_previous->_next = timer;
  list->_ends._previous = timer;
}

bool timer_list_is_armed(const struct timer_entry *timer) {
  return timer->_next != NULL;
}

int64_t timer_list_next(const struct timer_list *list) {
  return list->_ends._next == &list->_ends ? INT64_MAX : list->_ends._next->_expires_ns;
}

void timer_list_expire(struct timer_list *list, int64_t now_ns) {
  while (timer_list_next(list) <= now_ns) {
    struct timer_entry *timer = list->_ends._next;
    timer_list_disarm(timer);
    timer->expired(timer);
  }
}
