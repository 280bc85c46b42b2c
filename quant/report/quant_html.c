// Names come from model files: any bytes, some of which HTML would read. What is no UTF-8 is
// replaced, not dropped, so that two names which differ in it stay two.
#include "quant/report/quant_html.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// The bytes of the UTF-8 character there; 0: it is none (RFC 3629: no surrogates, nothing longer
// than needed).
static size_t html_character(const unsigned char *p)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = *p < 0x80 ? 1 : *p >> 5 == 6 ? 2 : *p >> 4 == 14 ? 3 : *p >> 3 == 30 ? 4 : 0;
    uint32_t code = n == 1 ? *p : n ? *p & (0xffu >> (n + 1)) : 0;
    for (size_t i = 1; i < n; i++) {
        if (p[i] >> 6 != 2)
            return 0;
        code = code << 6 | (p[i] & 0x3f);
    }
    bool surrogate = code >= 0xd800 && code < 0xe000;
    return n > 1 && (code < least[n] || code > 0x10ffff || surrogate) ? 0 : n;
}

// What begins or ends something in HTML, in an element's text and in attributes in either quotes.
static const char *html_entity(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

void html_text(FILE *out, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    while (*p) {
        size_t n = html_character(p);
        const char *entity = html_entity((char)*p);
        if (entity)
            fputs(entity, out);
        else if (!n || *p < 32 || *p == 127)
            fputs("\xef\xbf\xbd", out);
        else
            fwrite(p, 1, n, out);
        p += n ? n : 1;
    }
}

// Nine digits are all that a float has; of doubles they are more than anybody compares.
void html_number(FILE *out, double value, const char *format)
{
    if (!isfinite(value)) {
        fputs("<td class=\"number\">–</td>", out);
        return;
    }
    fprintf(out, "<td class=\"number\" data-value=\"%.9g\">", value);
    fprintf(out, format, value);
    fputs("</td>", out);
}
