// Tells ThreadSanitizer what it can't see: that gRPC hands memory from the thread that starts an operation to
// the thread that gets its event. libgrpc isn't instrumented; without these lines a right program gives
// reports.
#ifndef ACLNN_SERVER_RPC_QUEUE_ANNOTATIONS_H
#define ACLNN_SERVER_RPC_QUEUE_ANNOTATIONS_H

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
// Before an operation with this tag is started.
#define QUEUE_HANDS_OVER(tag) __tsan_release(tag)
// After the event of this tag was received.
#define QUEUE_TAKES_OVER(tag) __tsan_acquire(tag)
#else
#define QUEUE_HANDS_OVER(tag) ((void)(tag))
#define QUEUE_TAKES_OVER(tag) ((void)(tag))
#endif

#endif
