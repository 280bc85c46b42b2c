// Texts cut to a width. Widths count characters of UTF-8, not bytes.
#pragma once

#include <stddef.h>

size_t cut_width(const char *text);

/// Bytes of the first `width` characters.
size_t cut_bytes(const char *text, size_t width);

/// Cuts names to `width` characters so that different names stay different: at their start ("~ong
/// name"), because they differ at their ends; else in their middle ("a lo~name"); else with their
/// number at the end ("~ name#12"). The n names are `step` pointers apart. Those that are too long
/// are replaced in `ret`, which has the same layout, by new texts, the caller's to free. Returns 0,
/// or -1 if memory ran out; some may be replaced then.
int cut_names(char *const *names, size_t n, size_t step, size_t width, char **ret);
