// What ThreadSanitizer can't see: objects that change threads through gRPC's completion queues.
//
// gRPC isn't instrumented, so that the order which a queue makes (all before the start of a batch happens
// before all after its event) has to be told. Without the sanitizer these are nothing.
#ifndef ACLNN_CLIENT_C_HANDOVER_H
#define ACLNN_CLIENT_C_HANDOVER_H

#if defined(__SANITIZE_THREAD__)
void __tsan_acquire(void *address);
void __tsan_release(void *address);
// Before a batch is started; `tag` is the batch's.
#define HANDOVER_GIVE(tag) __tsan_release(tag)
// After the batch's event has come.
#define HANDOVER_TAKE(tag) __tsan_acquire(tag)
#else
#define HANDOVER_GIVE(tag) ((void)(tag))
#define HANDOVER_TAKE(tag) ((void)(tag))
#endif

#endif
