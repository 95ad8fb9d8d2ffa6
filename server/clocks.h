// The machine's clocks in the forms in which the modules take them. Any thread.
#ifndef ACLNN_SERVER_CLOCKS_H
#define ACLNN_SERVER_CLOCKS_H

#include <stdint.h>

int64_t clock_steady_ns(void *context);
// The same time as of the kernel's last tick, up to 10 ms ago, which is quicker to read: for what is looked
// at with every event and measured in seconds.
int64_t clock_steady_coarse_ns(void *context);
int64_t clock_steady_coarse_ms(void *context);
int64_t clock_unix_ms(void *context);

#endif
