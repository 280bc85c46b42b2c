// Options of the backend: [LIBRARY][,compatible=FILE][,dumps=FOLDER].
#pragma once

#include "base/error.h"

struct vendor_options {
    char library[256];    // a path; "": searched for
    char compatible[256]; // the device tree's list of names
    char dumps[256];      // where the runtime writes layers; "": its usual folders
};

int vendor_options_parse(const char *text, struct vendor_options *ret, struct error *e);
