// Text of others: UTF-8, and what of it can be shown.
#pragma once

#include <stddef.h>
#include <stdint.h>

/// Bytes of the UTF-8 character at `text` and its code; 0: invalid, or the end. Overlong forms and
/// surrogates are invalid, as protobuf strings may not contain them.
size_t text_character(const char *text, uint32_t *ret_code);

/// Replaces by "?", in place, what would not stay in its place on a terminal or a page: control
/// characters (C0, DEL, C1), line and paragraph separators, what turns the direction of text or is
/// not to be seen at all, and bytes that are no UTF-8. The one function for this.
void text_make_printable(char *text);
