// Escapes of JSON text that yajl does not look at.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

// Refuses half of a surrogate pair (RFC 8259, 8.2), which yajl makes a question mark of: an id
// would come back as another one. Whether it is JSON at all is not looked at.
int json_escapes_check(const uint8_t *text, size_t size, struct error *e);
