// Manual pages without their markup.
#include "tests/support/manual.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static void add_plain(char *to, const char *from)
{
    size_t n = strlen(to);
    for (; *from; from++) {
        if (*from == '\\' && from[1] == 'f' && from[2])
            from += 2;
        else if (!strchr(" []\"\\", *from))
            to[n++] = *from;
    }
    to[n] = 0;
}

char *manual_read(const char *path)
{
    char full[512], line[4096];
    char *text = calloc(1, 1 << 20);
    snprintf(full, sizeof full, "%s/%s", SOURCE_DIR, path);
    cleanup(fclose_p) FILE *file = fopen(full, "re");
    while (file && text && fgets(line, sizeof line, file)) {
        size_t macro = *line == '.' ? strcspn(line, " \n") : 0;
        add_plain(text, line + macro);
    }
    return text;
}

const char *manual_form(const char *scheme, const char *syntax, char ret[static 80])
{
    char both[80];
    snprintf(both, sizeof both, "%s%s", scheme, syntax);
    *ret = 0;
    add_plain(ret, both);
    return ret;
}
