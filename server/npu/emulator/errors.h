// Error texts, one per thread, as CANN keeps them.
//
// A failing call adds its text on top of what its thread hasn't fetched yet; fetching clears. Everything
// here belongs to the calling thread. The function that operators use is emulated_refuse of
// kernels/emulated_device.h, which is this module's.
#ifndef ACLNN_SERVER_NPU_EMULATOR_ERRORS_H
#define ACLNN_SERVER_NPU_EMULATOR_ERRORS_H

// The pending text, newest first, or NULL. Valid until this thread's next call.
const char *errors_take(void);

// Drops what is pending: for whoever begins anew.
void errors_clear(void);

#endif
