// The limits of server/rpc, each with its reason.
#ifndef ACLNN_SERVER_RPC_LIMITS_H
#define ACLNN_SERVER_RPC_LIMITS_H

// Calls that one queue can take over between two turns of its thread. More wait inside gRPC for a moment.
#define SERVER_SLOTS_PER_QUEUE 32

// What one client can have under way on one connection. gRPC holds further calls back in the client. A stream
// on which nothing is received costs 64 KiB, but a posted receive opens the window to one message, whatever
// length that announces: a connection whose calls all send half a message of the longest kind pins 1 GiB, and
// all connections together FRAME_OVERSIZE_BYTES_MAX of longer ones; SERVER_QUOTA_BYTES lets them have less.
// The idle time-out ends calls that stay so within a job or before a unary request; for Execute calls
// without a job see SERVER_RESTING_CALLS_MAX.
#define SERVER_STREAMS_PER_CONNECTION_MAX 256

// Execute calls that may rest before a begin for as long as they like. Nothing tells a call that rests from
// one that has sent half of a message of 4 MiB, so beyond this number those end that have rested for longer
// than the idle time-out, the longest first: what half messages pin for good stays within SERVER_QUOTA_BYTES.
#define SERVER_RESTING_CALLS_MAX 128

// What a job that is under way has to move in each idle time-out, or all that is left: a message of a few
// bytes now and then doesn't hold its memory. Whoever uses the standard chunks has to complete one in that
// time anyway.
#define EXECUTE_PACE_BYTES ((int64_t)1 << 20)

// Headers that one call may send; a handle travels in a message, so this is for tracing and credentials.
#define SERVER_METADATA_BYTES_MAX (16 * 1024)

// Memory that gRPC may hold for all connections together, besides the messages of jobs that wait for memory:
// each of these may hold one. When it is used up, streams are killed, waiting ones too: so it lies well above
// what the connections of a busy server come to, and is the last net only.
#define SERVER_QUOTA_BYTES ((size_t)512 << 20)

// gRPC's compression of messages, as bits by algorithm: none but "identity" (number 0). gRPC would inflate a
// message before it looks at its size, so that 4 MiB could become 4 GiB; chunks have codecs of their own,
// whose result has a known size. It refuses calls that compress, and nothing here ever inflates a message.
#define SERVER_COMPRESSION_ALGORITHMS 1

// A connection without calls is closed after this time: clients open a new one without noticing, and whoever
// only connects doesn't keep others out for ever.
#define SERVER_CONNECTION_IDLE_MS (10 * 60 * 1000)

// A response message takes further chunks until it holds so many bytes of tensor data as they travel, or
// would have to hold more than a message may: small jobs are answered in one message, and encoded chunks
// share one.
#define RESPONSE_PACK_BYTES_MAX ((int64_t)1 << 20)
// And as long as these stand for so many bytes of tensors: encoding them keeps other calls of the queue
// waiting.
#define RESPONSE_RAW_BYTES_MAX ((int64_t)4 << 20)
// Chunks in one response message: one a tensor when they are small.
#define RESPONSE_CHUNKS_MAX 16

// What an Execute call takes of one message before other calls of its queue get their turn: a few
// kilobytes of NONZERO_WORDS stand for 4 MiB of zeros, and a message of them for 4 GiB. A turn takes as long
// as to decode so much and one chunk more, whose size SERVER_CHUNK_BYTES_MAX bounds.
#define EXECUTE_TURN_BYTES ((int64_t)2 << 20)
// What a chunk counts for at the least. A message may hold hundreds of thousands of chunks of one byte.
#define EXECUTE_TURN_CHUNK_BYTES ((int64_t)1 << 10)
// Events that a queue's thread handles before one that yielded goes on, while more of them come.
#define QUEUE_EVENTS_BEFORE_TURN 32

// A message in more pieces than this is joined before it is read: gRPC delivers about 20 a MiB.
#define MESSAGE_SPANS_MAX 1024

// One call's headers as they travel, and the bytes that reading them again with every piece comes to: gRPC
// begins a value anew until it has all of it. Headers beyond SERVER_METADATA_BYTES_MAX and below this are
// refused with an error; these are cut off.
#define FRAME_BLOCK_BYTES_MAX ((uint64_t)128 << 10)
#define FRAME_BLOCK_WORK_MAX ((uint64_t)8 << 20)

// Calls that a connection may open in one turn of the thread that reads it, besides those that are over by
// then. gRPC reads on as long as something comes, and makes every call before the thread can handle one: the
// others wait behind them all. A client that keeps to SERVER_STREAMS_PER_CONNECTION_MAX gets beyond that only
// with calls that it gives up while the server is held up: 12 threads whose calls have a millisecond, on
// processors that others use too, were seen to have 700. With several queues a thread may read for long for
// another that handles the calls, and gRPC tells nobody of a call that it refuses by itself: 100 a second are
// forgiven.
#define FRAME_CALLS_AHEAD_MAX (8 * SERVER_STREAMS_PER_CONNECTION_MAX)
#define FRAME_CALL_FORGIVEN_NS 10000000

// Frames that move nothing which a connection may send at once, and a second: settings, pings, empty data and
// the like. Clients of gRPC send a few a second.
#define FRAME_NOTHINGS_MAX 1000
#define FRAME_NOTHING_FORGIVEN_NS 1000000

// What messages that are longer than one may be can announce on all connections together. gRPC gathers a
// message whole before it refuses it, so a client's mistake of this size gets its error; beyond it is cut
// off.
#define FRAME_OVERSIZE_BYTES_MAX ((int64_t)64 << 20)
// Streams of one connection that are followed through the middle of a message. Those that the server has
// ended are among them; the oldest go first.
#define FRAME_STREAMS_MAX (4 * SERVER_STREAMS_PER_CONNECTION_MAX)

// What a thread that handles events holds back of a connection's small replies: so many at most, and none
// that is longer. With 32 calls at a time 16 took the server 0.88 times what none took, 8 1.5 % more than 16,
// 4 4.5 % more, and beyond 16 nothing changed.
#define SEND_GATHER_REPLIES_MAX 16
#define SEND_GATHER_BYTES_MAX ((size_t)16 << 10)
// And for so long, by a clock that ticks every few milliseconds: what comes may be others' uploads, each of
// which takes a turn.
#define SEND_GATHER_NS_MAX INT64_C(2000000)

// Connections' descriptors are below this.
#define CONNECTION_DESCRIPTORS_MAX (1 << 19)
// Numbers of the descriptors that gRPC gets: above those of everything else, and over a range of so many
// times the connections that there can be before a number comes again.
#define LISTENER_DESCRIPTOR_MIN 64
#define LISTENER_DESCRIPTOR_SPREAD 4
// Connections that one listener accepts before the loop's other work gets a turn.
#define LISTENER_ACCEPTS_PER_TURN 64
// A peer whose machine vanished is noticed after IDLE + COUNT * INTERVAL seconds.
#define LISTENER_KEEPALIVE_IDLE_S 60
#define LISTENER_KEEPALIVE_INTERVAL_S 15
#define LISTENER_KEEPALIVE_COUNT 4
// Connections that wait to be accepted; the kernel cuts it to net.core.somaxconn.
#define LISTENER_BACKLOG 1024

#endif
