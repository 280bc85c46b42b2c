// Tables for spreadsheets (RFC 4180, with plain newlines).
#pragma once

#include <stdbool.h>
#include <stdio.h>

/// Writes one cell, in quotes where it needs them, with the comma before it or the newline behind.
/// Text that a spreadsheet would compute (=, +, -, @, and no number) gets an apostrophe in front;
/// what cannot be shown becomes "?" (base/text/text.h).
void csv_cell(FILE *out, const char *text, bool first, bool last);
