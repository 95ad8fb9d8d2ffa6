// Plain TCP over IPv4, blocking. What goes wrong ends the program.
#ifndef ACLNN_TESTS_BENCH_TRANSPORT_BENCH_SOCKETS_H
#define ACLNN_TESTS_BENCH_TRANSPORT_BENCH_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SOCKETS_ADDRESS_BYTES_MAX 32

// Listens on "1.2.3.4:PORT", 0 being a free one, and says in `bound` where.
int sockets_listen(const char *address, char bound[SOCKETS_ADDRESS_BYTES_MAX]);
int sockets_accept(int listening);
int sockets_connect(const char *address);

// False at the stream's end.
bool sockets_read_all(int socket, void *to, size_t bytes);
void sockets_write_all(int socket, const void *from, size_t bytes);

#endif
