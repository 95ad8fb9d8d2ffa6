// Where a listener listens: "host:port", "[v6]:port" or "unix:/path". Any thread.
#ifndef ACLNN_SERVER_RPC_ADDRESS_H
#define ACLNN_SERVER_RPC_ADDRESS_H

#include "kernels/status.h"

#include <sys/socket.h>

// Longer ones name nothing.
#define ADDRESS_TEXT_BYTES_MAX 300

struct address {
  struct sockaddr_storage socket_address;
  socklen_t size;
};

// Names of hosts are looked up. Fails with CONFIGURATION.
MUST_CHECK bool address_parse(const char *text, struct address *address, struct status *status);

bool address_is_unix(const struct address *address);
// The path of a unix address.
const char *address_path(const struct address *address);

// As it can be parsed again.
void address_format(const struct address *address, char text[ADDRESS_TEXT_BYTES_MAX]);

#endif
