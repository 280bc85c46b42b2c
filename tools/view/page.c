// The page of `rknnctl report`: one HTML file without external resources. The template is built
// from tools/report and linked into the program (RKNND_PAGE is its path); @DATA@ and @NONCE@ in it
// are replaced. The data has names from model files and is untrusted.
#include "tools/view/page.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"

#define DATA_MARK  "@DATA@"
#define NONCE_MARK "@NONCE@"
#define NONCE_SIZE 16

__asm__(".pushsection .rodata\n"
        "page_template:\n"
        ".incbin \"" RKNND_PAGE "\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char page_template[] __attribute__((visibility("hidden")));

// The content security policy allows only scripts with this random number: a script that a name
// injects has none and does not run.
static int make_nonce(char text[2 * NONCE_SIZE + 1])
{
    uint8_t bytes[NONCE_SIZE];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return -1;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

// Escapes '<', which JSON allows in strings only: "</script>" in a name cannot end the element.
static void write_data(const char *json, FILE *out)
{
    for (; *json; json++)
        if (*json == '<')
            fputs("\\u003c", out);
        else
            fputc(*json, out);
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

// An '@' that begins neither mark is copied.
int page_write(json_t *data, FILE *out)
{
    char nonce[2 * NONCE_SIZE + 1];
    if (make_nonce(nonce) < 0)
        return -1;
    cleanup(free_p) char *json = json_dumps(data, JSON_COMPACT | JSON_REAL_PRECISION(9));
    const char *at = page_template;
    if (!json)
        return -1;
    for (const char *mark; (mark = strchr(at, '@')); at = mark) {
        fwrite(at, 1, (size_t)(mark - at), out);
        if (starts_with(mark, NONCE_MARK)) {
            fputs(nonce, out);
            mark += strlen(NONCE_MARK);
        } else if (starts_with(mark, DATA_MARK)) {
            write_data(json, out);
            mark += strlen(DATA_MARK);
        } else {
            fputc(*mark++, out);
        }
    }
    fputs(at, out);
    return 0;
}
