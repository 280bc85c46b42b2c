// --check-config: what can be said of options without starting.
#pragma once

#include "server/options.h"

/// Looks for the backend, reads keys and certificates, and checks addresses; the options are good
/// each by itself (options_parse()). Listens nowhere.
int config_check(const struct options *o, struct error *e);
