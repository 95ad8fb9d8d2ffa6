// Lets what a thread sends on one connection, event after event, go out together.
//
// gRPC sends each small reply by itself, and the kernel takes a packet all the way to the other side within
// that call, which is half of what it costs to answer a small job. While a thread handles events, this holds
// the replies on a connection with several calls back (MSG_MORE), until some have gathered or the thread has
// nothing left to handle. A reply to the only call of a connection goes at once.
//
// gRPC offers no place for that, so this module defines sendmsg for the whole program and calls the C
// library's. What a thread holds is the thread's; the calls of a connection are counted for the program.
#ifndef ACLNN_SERVER_RPC_SEND_GATHER_H
#define ACLNN_SERVER_RPC_SEND_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A call of that connection has something to do, or hasn't any more. Each begin has its end. Any thread;
// numbers that can't be a connection's are fine.
void send_gather_call_begins(int descriptor);
void send_gather_call_ends(int descriptor);

// What the calling thread sends between these may be held back, for SEND_GATHER_NS_MAX and one event at most.
// It must not wait for anything while it holds something. now_ns: on a steady clock. An end without a begin
// is fine.
void send_gather_begin_event(void);
void send_gather_end_event(int64_t now_ns);
bool send_gather_holds(void);
void send_gather_release(void);

// The flags with which `size` bytes are sent on a connection now, and the decision that goes with them: what
// sendmsg does before it sends.
int send_gather_flags(int descriptor, size_t size, int flags);

#endif
