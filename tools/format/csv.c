// CSV as RFC 4180 has it: cells with comma, quote or line break are quoted, quotes doubled. Lines
// end with \n alone, which spreadsheets read.
#include "tools/format/csv.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text/text.h"

// A spreadsheet computes what begins like this, unless it is a number or (a dash for what is not
// known) nothing else.
static bool is_formula(const char *text)
{
    char *end;
    if (!*text || !strchr("=+-@", *text) || !text[1])
        return false;
    strtod(text, &end);
    return end == text || *end;
}

void csv_cell(FILE *out, const char *text, bool first, bool last)
{
    cleanup(free_p) char *shown = strdup(text);
    const char *p = shown ? shown : "?";
    if (shown)
        text_make_printable(shown);
    bool quoted = strpbrk(p, ",\"") != NULL;
    fputs(first ? "" : ",", out);
    if (quoted)
        fputc('"', out);
    if (is_formula(p))
        fputc('\'', out);
    for (; *p; p++) {
        if (*p == '"')
            fputc('"', out);
        fputc(*p, out);
    }
    fputs(quoted ? "\"" : "", out);
    fputs(last ? "\n" : "", out);
}
