// What a stream can do: colour, width, wrapping to the width.
#pragma once

#include <stdbool.h>
#include <stdio.h>

enum terminal_style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_RED };

/// True if the stream is a terminal.
bool terminal_is(FILE *stream);

/// The escape sequence for a style on a terminal that takes colour; "" in a pipe, with NO_COLOR
/// (any value but "", no-color.org) or on TERM=dumb. STYLE_PLAIN ends a style.
const char *terminal_style(FILE *stream, enum terminal_style style);

/// Columns of a terminal, at least 40; 0 (no limit) when the stream is not one.
size_t terminal_width(FILE *stream);

/// Writes text and a newline. The stream is at column `at`; what does not fit `width` columns (0:
/// no limit) continues on lines that are indented by `at`.
void terminal_wrap(FILE *out, const char *text, size_t at, size_t width);
