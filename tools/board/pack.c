// Entries have neither times nor owners, so that the archive says nothing of who made it.
#include "tools/board/pack.h"

#include <archive.h>
#include <archive_entry.h>

#include "base/file/output_file.h"

#define FOLDER "board-test/"

// The library's words are often "Write error" alone.
static int archive_failed(struct archive *a, const char *name, struct error *e)
{
    int number = archive_errno(a);
    return number > 0 ? error_set_errno(e, STATUS_FAIL, number, "%s", name)
                      : error_set(e, STATUS_FAIL, "%s: %s", name, archive_error_string(a));
}

// Readable for everybody: it is made to be given away.
static int add_file(struct archive *a, const struct pack_file *f, struct error *e)
{
    char name[128];
    struct archive_entry *entry = archive_entry_new();
    if (!entry)
        return error_no_memory(e, "an archive", 0);
    snprintf(name, sizeof name, FOLDER "%s", f->name);
    archive_entry_set_pathname(entry, name);
    archive_entry_set_size(entry, (la_int64_t)f->size);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    int wrong = archive_write_header(a, entry) != ARCHIVE_OK ||
                archive_write_data(a, f->data, f->size) != (la_ssize_t)f->size;
    archive_entry_free(entry);
    return wrong ? archive_failed(a, f->name, e) : 0;
}

// The plainest kind of tar, which every system unpacks.
static int write_files(FILE *out, const struct pack_file *files, size_t n, struct error *e)
{
    struct archive *a = archive_write_new();
    int r = 0;
    if (!a)
        return error_no_memory(e, "an archive", 0);
    archive_write_set_format_ustar(a);
    archive_write_add_filter_xz(a);
    archive_write_set_bytes_in_last_block(a, 1); // it is no tape: nothing behind the last byte
    if (archive_write_open_FILE(a, out) != ARCHIVE_OK)
        r = archive_failed(a, "an archive", e);
    for (size_t i = 0; i < n && r == 0; i++)
        r = add_file(a, &files[i], e);
    if (archive_write_close(a) != ARCHIVE_OK && r == 0)
        r = archive_failed(a, "its end", e);
    archive_write_free(a);
    return r;
}

int pack_write(const char *path, const struct pack_file *files, size_t n, struct error *e)
{
    struct output_file out = {0};
    int r = output_file_open(&out, path, e);
    if (r == 0)
        r = write_files(out.stream, files, n, e);
    if (r == 0)
        r = output_file_close(&out, e);
    output_file_drop(&out);
    return r < 0 ? error_prefix(e, "%s", path) : 0;
}
