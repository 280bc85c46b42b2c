// In every module: which release it was built for.
#include "npu/npu.h"

__attribute__((visibility("default"))) const char npu_release[] = RKNND_VERSION;
