#include "server/shelf/shelf_names.h"

#include <stdio.h>
#include <string.h>

#include "base/text/text.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

static bool is_word(const char *text, size_t size)
{
    size_t n = strlen(text);
    return n > 0 && n < size && strchr(LETTERS, text[0]) && strspn(text, LETTERS "._-") == n;
}

bool shelf_is_name(const char *name)
{
    return is_word(name, SHELF_NAME_SIZE);
}

bool shelf_is_version(const char *version)
{
    return is_word(version, SHELF_VERSION_SIZE);
}

static int check_word(const char *what, const char *text, size_t size, struct error *e)
{
    char shown[80];
    if (is_word(text, size))
        return 0;
    snprintf(shown, sizeof shown, "%.70s", text);
    text_make_printable(shown);
    return error_set(e, STATUS_PARAM_INVALID,
                     "\"%s\" cannot be a model's %s: 1 to %zu letters (A to Z), digits, '.', '_' "
                     "and '-', of which the first is a letter or a digit",
                     shown, what, size - 1);
}

int shelf_check_name(const char *name, struct error *e)
{
    return check_word("name", name, SHELF_NAME_SIZE, e);
}

int shelf_check_version(const char *version, struct error *e)
{
    return check_word("version", version, SHELF_VERSION_SIZE, e);
}
