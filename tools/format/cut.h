// Texts that are cut to fit. Widths are characters, not bytes, of UTF-8.
#pragma once

#include <stddef.h>

size_t cut_width(const char *text);

/// Bytes of the first `width` characters.
size_t cut_bytes(const char *text, size_t width);

/// Cuts names to `width` characters, at their start ("~ong name"), for they differ at their ends;
/// where that makes two of them look alike, in their middle ("a lo~name"), and where that does,
/// too, with their number behind ("~ name#12"). Of n names, each `step` pointers from the last,
/// those that are too long are replaced in `ret` (laid out in the same way) by new texts, the
/// caller's to free. Returns 0, or -1 if memory ran out: then some are replaced, or none.
int cut_names(char *const *names, size_t n, size_t step, size_t width, char **ret);
