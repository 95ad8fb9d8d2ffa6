// Settings of the process as a whole, made once at its start.
#ifndef ACLNN_SERVER_PROCESS_H
#define ACLNN_SERVER_PROCESS_H

#include <stdint.h>

// Memory that is kept, signals that are ignored, and as many descriptors as may be had: returns that number.
int64_t process_prepare(void);

#endif
