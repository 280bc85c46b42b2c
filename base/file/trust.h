// Files that decide who may do what.
#pragma once

#include "base/error.h"

/// Words, if everybody may write to the file. What is none, or not there, is for who reads it.
int trust_check(const char *path, struct error *e);
