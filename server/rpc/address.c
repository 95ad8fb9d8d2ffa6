#include "server/rpc/address.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

static const char unix_prefix[] = "unix:";

static bool fail(struct status *status, const char *text, const char *why) {
  return status_fail(status, REASON_CONFIGURATION, NULL,
                     "can't listen on \"%s\": %s; allowed are host:port, [v6]:port and unix:/path", text,
                     why);
}

static bool parse_unix(const char *text, struct address *address, struct status *status) {
  struct sockaddr_un socket_address = {.sun_family = AF_UNIX};
  const char *path = text + strlen(unix_prefix);
  if (path[0] == '\0') {
    return fail(status, text, "the path is empty");
  }
  if (strlen(path) >= sizeof socket_address.sun_path) {
    return fail(status, text, "the path is too long for a unix socket");
  }
  memcpy(socket_address.sun_path, path, strlen(path) + 1);
  *address = (struct address){.size = sizeof socket_address};
  memcpy(&address->socket_address, &socket_address, sizeof socket_address);
  return true;
}

// Splits "host:port" or "[v6]:port"; false if it is neither.
static bool split(const char *text, char host[ADDRESS_TEXT_BYTES_MAX], const char **port) {
  const char *colon = strrchr(text, ':');
  if (colon == NULL || strlen(text) >= ADDRESS_TEXT_BYTES_MAX) {
    return false;
  }
  size_t host_bytes = (size_t)(colon - text);
  bool bracketed = text[0] == '[';
  if (bracketed) {
    if (host_bytes < 2 || text[host_bytes - 1] != ']') {
      return false;
    }
    ++text;
    host_bytes -= 2;
  }
  memcpy(host, text, host_bytes);
  host[host_bytes] = '\0';
  *port = colon + 1;
  return bracketed || strchr(host, ':') == NULL;
}

static bool is_port(const char *text) {
  size_t digits = strspn(text, "0123456789");
  return digits > 0 && digits <= 5 && text[digits] == '\0' && strtol(text, NULL, 10) <= 65535;
}

bool address_parse(const char *text, struct address *address, struct status *status) {
  if (strncmp(text, unix_prefix, strlen(unix_prefix)) == 0) {
    return parse_unix(text, address, status);
  }
  char host[ADDRESS_TEXT_BYTES_MAX];
  const char *port = NULL;
  if (!split(text, host, &port)) {
    return fail(status, text, "that isn't an address");
  }
  if (host[0] == '\0') {
    return fail(status, text, "the host is missing (0.0.0.0 or [::] for all)");
  }
  if (!is_port(port)) {
    return fail(status, text, "the port isn't a number up to 65535");
  }
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
  struct addrinfo *found = NULL;
  int error = getaddrinfo(host, port, &hints, &found);
  if (error != 0) {
    return fail(status, text, gai_strerror(error));
  }
  *address = (struct address){.size = found->ai_addrlen};
  memcpy(&address->socket_address, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return true;
}

bool address_is_unix(const struct address *address) {
  return address->socket_address.ss_family == AF_UNIX;
}

const char *address_path(const struct address *address) {
  assert(address_is_unix(address));
  return ((const struct sockaddr_un *)&address->socket_address)->sun_path;
}

void address_format(const struct address *address, char text[ADDRESS_TEXT_BYTES_MAX]) {
  char host[INET6_ADDRSTRLEN] = "";
  if (address_is_unix(address)) {
    snprintf(text, ADDRESS_TEXT_BYTES_MAX, "%s%s", unix_prefix, address_path(address));
  } else if (address->socket_address.ss_family == AF_INET6) {
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address->socket_address;
    inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
    snprintf(text, ADDRESS_TEXT_BYTES_MAX, "[%s]:%u", host, (unsigned)ntohs(v6->sin6_port));
  } else {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address->socket_address;
    inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
    snprintf(text, ADDRESS_TEXT_BYTES_MAX, "%s:%u", host, (unsigned)ntohs(v4->sin_port));
  }
}
