// Settings of the process as a whole, made once at its start.
#ifndef ACLNN_SERVER_PROCESS_H
#define ACLNN_SERVER_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

// What the heap may keep for reuse: more than a busy server needs, and less than a flood leaves behind.
#define PROCESS_HEAP_KEPT_BYTES ((int64_t)256 << 20)
// How often it is looked at. What was given back has to be touched anew, so this isn't done for every peak.
#define PROCESS_HEAP_LOOK_MS 30000

// Memory that is kept, signals that are ignored, standard descriptors that are open, and as many descriptors
// as may be had: returns that number.
int64_t process_prepare(void);

// Bytes that the heap has from the system and doesn't use.
int64_t process_heap_kept_bytes(void);

// Gives the heap's free memory to the system if it was too much at this look and at the one before. *was_over
// is the caller's, false at first. Any thread; others wait for their next allocation meanwhile.
void process_look_at_heap(bool *was_over);

#endif
