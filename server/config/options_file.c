// Configuration files: lines `name = value` with the names of the long options, `#` starts a
// comment line.
#include "server/config/options_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "server/config/options_rows.h"

#define CONFIG_MAX (1u << 20) // bytes of a configuration file

// In place: returns the first character that is no space, and cuts spaces at the end.
static char *trim(char *text)
{
    static const char space[] = " \t\r\n";
    text += strspn(text, space);
    size_t n = strlen(text);
    while (n > 0 && strchr(space, text[n - 1]))
        text[--n] = 0;
    return text;
}

// Where each row's option stands in the file, 0: nowhere.
struct file_lines {
    int of[OPTION_TABLE_MAX_ROWS];
};

// What is there twice would count as one of the two, and whoever reads the file may look at the
// other one.
static int set_once(struct options *o, const char *name, const char *value, int line,
                    struct file_lines *lines, struct error *e)
{
    struct options_rows r;
    options_list(o, &r);
    const struct option_table t = {.rows = r.rows, .n_rows = r.n};
    int i = option_table_find(&t, name);
    if (i >= 0 && r.rows[i].kind != OPTION_LIST && lines->of[i])
        return error_set(e, STATUS_PARAM_INVALID, "%s is on line %d already: leave one of the two",
                         name, lines->of[i]);
    if (i >= 0)
        lines->of[i] = line;
    return options_set(o, name, value, e);
}

// One line of the file, which it changes: `name = value`, a comment, or empty.
static int read_line(struct options *o, char *line, int n, struct file_lines *lines,
                     struct error *e)
{
    line = trim(line);
    if (!*line || *line == '#')
        return 0;
    char *value = strchr(line, '=');
    if (!value)
        return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is not of the form name = value", line);
    *value++ = 0;
    value = trim(value);
    for (const char *at = value; (at = strchr(at, '#')); at++)
        if (at > value && (at[-1] == ' ' || at[-1] == '\t'))
            return error_set(e, STATUS_PARAM_INVALID,
                             "\"%s\" would be a part of the value: a comment has a line of its own",
                             at);
    return set_once(o, trim(line), value, n, lines, e);
}

// What some editors put in front of a text.
static char *skip_mark(char *text)
{
    static const char mark[] = "\xef\xbb\xbf";
    return strncmp(text, mark, sizeof mark - 1) == 0 ? text + sizeof mark - 1 : text;
}

// A pipe is refused, not waited for: the file is read again while the daemon runs, and nothing ends
// a thread that opens one. A file of no bytes is what is there while an editor writes it, and
// behind a full disk or a lost supply.
static int open_file(const char *path, FILE **ret, struct error *e)
{
    struct stat st;
    cleanup(fd_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "%s", path);
    if (S_ISFIFO(st.st_mode))
        return error_set(e, STATUS_PARAM_INVALID,
                         "%s is a pipe, which cannot be read again at a reload: give a file", path);
    if (S_ISREG(st.st_mode) && st.st_size == 0)
        return error_set(e, STATUS_PARAM_INVALID,
                         "%s is empty: where nothing is to be set, leave a comment (#) in it, or "
                         "name /dev/null",
                         path);
    *ret = fdopen(fd, "r");
    if (!*ret)
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "%s", path);
    steal_fd(&fd);
    return 0;
}

// A file that is not text is what is left when power was lost, or was never a configuration.
static int read_text(const char *path, char **ret, struct error *e)
{
    cleanup(fclose_p) FILE *file = NULL;
    int r = open_file(path, &file, e);
    if (r < 0)
        return r;
    cleanup(free_p) char *text = malloc(CONFIG_MAX + 1);
    if (!text)
        return error_no_memory(e, "the configuration", CONFIG_MAX);
    size_t n = fread(text, 1, CONFIG_MAX + 1, file);
    if (ferror(file))
        return error_set_errno(e, STATUS_PARAM_INVALID, errno, "%s", path);
    if (n > CONFIG_MAX)
        return error_set(e, STATUS_PARAM_INVALID, "%s is larger than %u bytes", path, CONFIG_MAX);
    text[n] = 0;
    if (strlen(text) != n)
        return error_set(e, STATUS_PARAM_INVALID, "%s is not text: byte %zu is 0", path,
                         strlen(text));
    *ret = steal_ptr(text);
    return 0;
}

int options_read_file(struct options *o, const char *path, struct error *e)
{
    cleanup(free_p) char *text = NULL;
    struct file_lines lines = {0};
    int r = read_text(path, &text, e);
    if (r < 0)
        return r;
    char *rest = skip_mark(text), *line;
    for (int n = 1; (line = strsep(&rest, "\n")); n++)
        if (read_line(o, line, n, &lines, e) < 0)
            return error_prefix(e, "%s:%d", path, n);
    return 0;
}
