// Backends as loadable modules: finds npu-NAME.so and its table.
#pragma once

#include "npu/npu.h"

struct npu_module {
    void *library;
    const struct npu_backend *backend;
};

/// Loads the backend `name` ("sim", "null", …: letters, digits, '_' and '-') from folder `dir`.
/// May block. STATUS_DEVICE_UNAVAILABLE names the file and says why it could not be used.
int npu_module_open(struct npu_module *m, const char *dir, const char *name, struct error *e);

/// After the last object of the backend is gone. A module that is zeroed or closed is fine.
void npu_module_close(struct npu_module *m);
