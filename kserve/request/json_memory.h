// Memory for yajl (2.1), which uses what it asks for without a look whether it came, and the end of
// what it reads.
#pragma once

#include <yajl/yajl_parse.h>

#include "base/error.h"

/// Calls work(user, functions), whose memory comes from these functions; returns what it returns.
/// When memory ends, or a string or a number is longer than any that means something, it is left by
/// a jump, so that nothing after that point of it is done, and the result is an error with words.
/// All of the functions' memory is freed in the end, in both cases.
int json_memory_run(int (*work)(void *user, yajl_alloc_funcs *functions), void *user,
                    struct error *e);

/// Instead of yajl_complete_parse(), which overlooks the begin of a string behind the value.
yajl_status json_complete(yajl_handle h);
