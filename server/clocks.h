// The machine's clocks in the forms in which the modules take them. Any thread.
#ifndef ACLNN_SERVER_CLOCKS_H
#define ACLNN_SERVER_CLOCKS_H

#include <stdint.h>

int64_t clock_steady_ns(void *context);
int64_t clock_steady_ms(void *context);
int64_t clock_unix_ms(void *context);

#endif
