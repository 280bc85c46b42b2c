// A backend's module that another release has left.
#include "npu/npu.h"

__attribute__((visibility("default"))) const char npu_release[] = "0.0.9";
__attribute__((visibility("default"))) const struct npu_backend npu_backend = {.name = "other"};
