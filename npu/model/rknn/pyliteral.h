// Reads the Python literals in which model files keep some of their facts, as JSON values.
#pragma once

#include <jansson.h>

#include "base/error.h"

/// Dicts, lists, tuples, strings, numbers, True, False and None; nothing else, no expressions. Dict
/// keys become strings. Nesting is bounded. *ret is a new reference.
int pyliteral_parse(const char *text, json_t **ret, struct error *e);
