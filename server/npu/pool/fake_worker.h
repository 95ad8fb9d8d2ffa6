// What the fake worker does with a job, told by the first dim of the job's first tensor.
#ifndef ACLNN_SERVER_NPU_POOL_FAKE_WORKER_H
#define ACLNN_SERVER_NPU_POOL_FAKE_WORKER_H

#define FAKE_WORKSPACE_BYTES 12345

enum behaviour {
  BEHAVIOUR_GOOD = 1,
  BEHAVIOUR_DIES,
  BEHAVIOUR_DIES_ON_DEVICE_0, // others do it
  BEHAVIOUR_HANGS,            // but answers pings
  BEHAVIOUR_GOES_MUTE,        // answers nothing any more
  BEHAVIOUR_GARBAGE,
  BEHAVIOUR_FOREIGN_ID, // answers something else
  BEHAVIOUR_FAULT,      // of the device: 507015
  BEHAVIOUR_MEMORY,     // 207018
  BEHAVIOUR_REFUSES,    // 561002
  BEHAVIOUR_HOLDS,      // answers with the next ping
  BEHAVIOUR_CLOSES_PIPE,
};

#endif
