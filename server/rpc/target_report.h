// What is said of targets and their devices as they are now: to GetServerInfo and to health checks.
//
// Any thread. Knows backends only through their interface.
#ifndef ACLNN_SERVER_RPC_TARGET_REPORT_H
#define ACLNN_SERVER_RPC_TARGET_REPORT_H

#include "proto/wire/messages.h"
#include "server/dispatch/dispatcher.h"

// Fills info->targets: each target that there could be, whether it is available now (it is configured and, if
// it has devices, one of them is healthy), with which numerics and devices.
void target_report_fill(const struct dispatcher *dispatcher, struct server_info *info);

enum target_health { TARGET_HEALTH_UNKNOWN, TARGET_HEALTH_GOOD, TARGET_HEALTH_BAD };
// Of a service that stands for devices: "npu" (good while one is healthy) or "npu:N". UNKNOWN for everything
// else, and where no such target or device is configured.
enum target_health target_report_health(const struct dispatcher *dispatcher, const char *service);

#endif
