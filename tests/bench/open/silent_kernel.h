// A kernel with the maker's driver that computes nothing: memory is there, and each other request
// is one system call that does as little as there is. For measuring what is in front of it.
#pragma once

#include "npu/open/provider/device_calls.h"

extern const struct device_calls silent_kernel;
