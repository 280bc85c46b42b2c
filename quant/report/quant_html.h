// Text and numbers in a page for browsers.
#pragma once

#include <stdio.h>

/// Text that may be anything: what HTML would read is escaped; control characters and bytes that
/// are no UTF-8 become U+FFFD. For elements' contents and for attributes in double quotes.
void html_text(FILE *out, const char *text);

/// A cell of a table: `shown` for people, and in data-value all digits. Not finite: "–".
void html_number(FILE *out, double value, const char *format);
