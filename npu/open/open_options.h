// What follows the backend's name in --backend:
//
//   open:emu:CHIP      the emulator in this process
//   emu:CHIP           the same
#pragma once

#include "npu/open/provider/provider.h"

/// `backend` is "open", or the name of a provider. *options is within `text`.
int open_options_parse(const char *backend, const char *text, const struct provider_ops **ret,
                       const char **options, struct error *e);
