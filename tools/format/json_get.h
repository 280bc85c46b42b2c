// Fields of JSON objects.
#pragma once

#include <jansson.h>

/// The text under a key; "": there is none.
static inline const char *json_get_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}
