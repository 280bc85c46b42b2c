// Text of others, made harmless.
#include "base/text/text.h"

#include <stdbool.h>
#include <string.h>

size_t text_character(const char *text, uint32_t *ret_code)
{
    static const uint32_t smallest[] = {0x1, 0x80, 0x800, 0x10000};
    const uint8_t *s = (const uint8_t *)text;
    unsigned more = s[0] < 0x80 ? 0 : s[0] < 0xe0 ? 1 : s[0] < 0xf0 ? 2 : 3;
    if ((s[0] >= 0x80 && s[0] < 0xc0) || s[0] >= 0xf8)
        return 0;
    uint32_t code = more ? s[0] & (0x3fu >> more) : s[0];
    for (unsigned i = 1; i <= more; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3f);
    }
    if (code < smallest[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0;
    *ret_code = code;
    return more + 1;
}

// Format characters are those of Unicode's category Cf, and of Zl and Zp, that change how others
// are seen; tags (U+E0000) say things that nobody sees.
static bool is_shown(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } hidden[] = {{0x00, 0x1f},     {0x7f, 0x9f},     {0x61c, 0x61c},
                  {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},
                  {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xe0000, 0xe007f}};
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        if (code >= hidden[i].first && code <= hidden[i].last)
            return false;
    return true;
}

// One "?" for each character; the text gets no longer.
void text_make_printable(char *text)
{
    char *to = text;
    while (*text) {
        uint32_t code = 0;
        size_t n = text_character(text, &code);
        if (n > 0 && is_shown(code)) {
            memmove(to, text, n);
            to += n;
        } else {
            *to++ = '?';
        }
        text += n ? n : 1;
    }
    *to = 0;
}
