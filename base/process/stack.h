// Room for stacks.
#pragma once

#include "base/error.h"

/// Raises a limit of stacks (ulimit -s, LimitSTACK=) with which programs end by a signal and
/// without words; fails if it may not be raised far enough. For this process's threads that start
/// from now on, the first one, and its children. Call it first, in the only thread.
int stack_ensure(struct error *e);
