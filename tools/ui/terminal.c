// What may be done to a stream: colour, width, wrapping. Not a terminal: no colour, no limit of
// width.
#include "tools/ui/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DEFAULT_WIDTH 80
#define LEAST_WIDTH   40

bool terminal_is(FILE *stream)
{
    return isatty(fileno(stream)) == 1;
}

// NO_COLOR: no-color.org.
static bool takes_colour(FILE *stream)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    return terminal_is(stream) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

const char *terminal_style(FILE *stream, enum terminal_style style)
{
    static const char *const sequences[] = {
        [STYLE_PLAIN] = "\033[0m",
        [STYLE_BOLD] = "\033[1m",
        [STYLE_DIM] = "\033[2m",
        [STYLE_RED] = "\033[31m",
    };
    return takes_colour(stream) ? sequences[style] : "";
}

// 0: no limit. Below LEAST_WIDTH lines wrap at the terminal instead.
size_t terminal_width(FILE *stream)
{
    struct winsize size;
    if (!terminal_is(stream))
        return 0;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return DEFAULT_WIDTH;
    return size.ws_col < LEAST_WIDTH ? LEAST_WIDTH : size.ws_col;
}

// Columns up to the next space, which the word ends before.
static size_t word_width(const char *text)
{
    size_t n = 0;
    for (; *text && *text != ' '; text++)
        n += (*text & 0xc0) != 0x80; // bytes that continue a character of UTF-8 do not count
    return n;
}

// Breaks at spaces and indents what follows by `at`. A word wider than the line is not broken.
void terminal_wrap(FILE *out, const char *text, size_t at, size_t width)
{
    size_t column = at;
    while (*text) {
        size_t bytes = strcspn(text, " "), columns = word_width(text);
        if (width && column > at && column + 1 + columns > width) {
            fprintf(out, "\n%*s", (int)at, "");
            column = at;
        } else if (column > at) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)bytes, text);
        column += columns;
        text += bytes;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}
