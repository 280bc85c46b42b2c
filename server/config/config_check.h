// --check-config: what can be said of options without starting.
#pragma once

#include "server/config/options.h"

/// Looks for the backend, reads keys and certificates, and checks addresses; the options are good
/// each by itself (options_parse()). Listens nowhere.
int config_check(const struct options *o, struct error *e);

/// Only what a daemon that runs does not use before its next start: its backend and HTTP's address.
int config_check_later(const struct options *o, struct error *e);
