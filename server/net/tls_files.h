// Keys and certificates of the options.
#pragma once

#include "base/tls/tls_context.h"
#include "server/config/options.h"

/// NULL: the options name none. May block.
int tls_files_open(const struct options *o, struct tls_context **ret, struct error *e);
