// The page of `rknnctl report`. The template comes with the program (RKNND_PAGE, a file's path).
#include "tools/page.h"

#include <stdlib.h>
#include <string.h>

#include "tools/cleanup.h"

#define MARK "@DATA@"

__asm__(".pushsection .rodata\n"
        "page_template:\n"
        ".incbin \"" RKNND_PAGE "\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char page_template[] __attribute__((visibility("hidden")));

// No "</script>" in a string of the data ends the element that it is in.
static void write_data(const char *json, FILE *out)
{
    for (; *json; json++)
        if (*json == '<')
            fputs("\\u003c", out);
        else
            fputc(*json, out);
}

int page_write(json_t *data, FILE *out)
{
    const char *mark = strstr(page_template, MARK);
    cleanup(free_p) char *json = json_dumps(data, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (!json)
        return -1;
    fwrite(page_template, 1, (size_t)(mark - page_template), out);
    write_data(json, out);
    fputs(mark + strlen(MARK), out);
    return 0;
}
