// CSV as RFC 4180 has it: cells with comma, quote or line break are quoted, quotes doubled. Lines
// end with \n alone, which spreadsheets read.
#include "tools/format/csv.h"

#include <string.h>

void csv_cell(FILE *out, const char *text, bool first, bool last)
{
    bool quoted = strpbrk(text, ",\"\n\r") != NULL;
    fputs(first ? "" : ",", out);
    if (quoted)
        fputc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputs(quoted ? "\"" : "", out);
    fputs(last ? "\n" : "", out);
}
