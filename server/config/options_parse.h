// The command line of rknnd.
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "server/config/options.h"

/// Sets the log level that counts without --log-level: RKNN_SERVER_LOGLEVEL's, or info. False: that
/// variable has none.
bool options_default_log_level(void);

/// Reads the command line and the file that --config names; the command line wins. Returns 0,
/// OPTION_TABLE_END (base/options/option_table.h), or STATUS_PARAM_INVALID with a text.
int options_parse(struct options *o, int argc, char **argv, struct error *e);

/// Reads the same command line, and the files that it names as they are now, into `ret`
/// (options_done() whatever happens). The log level counts at once. May block; on one thread at a
/// time.
int options_parse_again(const struct options *o, struct options *ret, struct error *e);
