// ONNX models with weights in other files ("external data"), seen as one file with all weights in
// it, so that servers need no file system in common with the program. Nothing is copied: the result
// is a list of pieces that bundle_read() reads from.
//
//     ModelProto                    pieces
//       graph (7)                   new header: the length has changed
//         node ...                  a range of the model's file
//         initializer (5)           new header
//           dims, name ...          a range of the model's file
//           external_data (13)      left out, and data_location (14) with it
//                                   raw_data (9): new header, a range of the other file
//
// (Field numbers of onnx.proto; StringStringEntryProto has key 1, value 2.) The file is only
// walked, not understood: what is malformed stays as it is, for the server's parser to refuse.
// Initializers of subgraphs are not looked at.
#include "client/model/bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/cleanup.h"

#define MAX_FILES  256
#define MAX_NAME   256
#define MAX_HEADER 20 // two varints

enum { MODEL_GRAPH = 7, GRAPH_INITIALIZER = 5, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { TENSOR_EXTERNAL = 13, TENSOR_LOCATION = 14, ENTRY_KEY = 1, ENTRY_VALUE = 2 };

struct piece {
    int fd; // -1: header
    uint64_t offset, size;
    uint8_t header[MAX_HEADER];
};

struct file {
    char name[MAX_NAME];
    int fd;
    uint64_t size;
};

struct bundle {
    int fd, folder;
    uint64_t size; // of all pieces
    struct piece *pieces;
    size_t n_pieces, room;
    struct file files[MAX_FILES];
    uint32_t n_files;
};

// A field of a message in the model's file.
struct field {
    uint32_t number, wire;
    uint64_t start, at, size; // of header and content; of the content
    uint64_t value;           // of a varint
};

// Where a tensor's data is.
struct place {
    char tensor[MAX_NAME], location[MAX_NAME];
    uint64_t offset, length;
    bool external, has_length;
};

// ---- the file ----

// Reads exactly `size` bytes; a file that ends before has shrunk since it was measured.
static int read_at(int fd, uint64_t at, size_t size, uint8_t *to, struct error *e)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(fd, to + done, size - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set_errno(e, STATUS_MODEL_INVALID, errno, "a file of the model");
        if (n == 0)
            return error_set(e, STATUS_MODEL_INVALID,
                             "a file of the model became shorter while it was read");
        done += (size_t)n;
    }
    return 0;
}

// A base-128 varint, least significant group first, bit 7 set in all bytes but the last.
static bool take_varint(const uint8_t *from, size_t size, size_t *at, uint64_t *ret)
{
    *ret = 0;
    for (unsigned shift = 0; shift < 64 && *at < size; shift += 7) {
        uint8_t byte = from[(*at)++];
        *ret |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

// The size of a field's content by its wire type: 0 varint (its value is read), 1 eight bytes, 2
// length before it, 5 four bytes. False: another type, or a varint without an end.
static bool bundle_measure(struct field *f, const uint8_t *header, size_t n, size_t *at)
{
    f->size = f->wire == 1 ? 8 : f->wire == 5 ? 4 : 0;
    if (f->wire == 0)
        return take_varint(header, n, at, &f->value);
    return f->wire == 2 ? take_varint(header, n, at, &f->size) : f->size > 0;
}

// The field at *at, below `end`; moves *at behind it. False: there is none that makes sense.
static bool next_field(int fd, uint64_t *at, uint64_t end, struct field *f)
{
    uint8_t header[MAX_HEADER];
    size_t n = end - *at < sizeof header ? (size_t)(end - *at) : sizeof header, used = 0;
    uint64_t tag;
    if (n == 0 || read_at(fd, *at, n, header, NULL) < 0 || !take_varint(header, n, &used, &tag))
        return false;
    *f = (struct field){.number = (uint32_t)(tag >> 3), .wire = tag & 7, .start = *at};
    if (!bundle_measure(f, header, n, &used) || f->size > end - *at - used)
        return false;
    f->at = *at + used;
    *at = f->at + f->size;
    return true;
}

// A string field. False: too long for MAX_NAME, or it has a 0 in it, which no path has.
static bool read_text(int fd, const struct field *f, char text[MAX_NAME])
{
    if (f->wire != 2 || f->size >= MAX_NAME ||
        read_at(fd, f->at, (size_t)f->size, (uint8_t *)text, NULL) < 0)
        return false;
    text[f->size] = 0;
    return strlen(text) == f->size;
}

// ---- pieces ----

// NULL: no memory.
static struct piece *add_piece(struct bundle *b, struct error *e)
{
    if (array_reserve(b->pieces, b->room, b->n_pieces + 1, "the model's files", e) < 0)
        return NULL;
    struct piece *p = &b->pieces[b->n_pieces++];
    *p = (struct piece){.fd = -1};
    return p;
}

// Adjoining ranges of a file become one piece, so that a model has few of them.
static int add_range(struct bundle *b, int fd, uint64_t offset, uint64_t size, struct error *e)
{
    struct piece *last = b->n_pieces ? &b->pieces[b->n_pieces - 1] : NULL;
    if (size == 0)
        return 0;
    if (last && last->fd == fd && last->offset + last->size == offset) {
        last->size += size;
        return 0;
    }
    struct piece *p = add_piece(b, e);
    if (!p)
        return STATUS_MALLOC_FAIL;
    p->fd = fd;
    p->offset = offset;
    p->size = size;
    return 0;
}

// Tag (number << 3 | wire type 2) and length of a message or bytes field.
static void set_header(struct piece *p, uint32_t number, uint64_t size)
{
    uint64_t parts[] = {number << 3 | 2, size};
    p->size = 0;
    for (int i = 0; i < 2; i++) {
        for (; parts[i] >= 0x80; parts[i] >>= 7)
            p->header[p->size++] = (uint8_t)(parts[i] | 0x80);
        p->header[p->size++] = (uint8_t)parts[i];
    }
}

// A message whose content is the pieces from `first` + 1 on: its header goes to `first`.
static void close_message(struct bundle *b, size_t first, uint32_t number)
{
    uint64_t size = 0;
    for (size_t i = first + 1; i < b->n_pieces; i++)
        size += b->pieces[i].size;
    set_header(&b->pieces[first], number, size);
}

// ---- other files ----

// The model names its files, and it is untrusted: only plain names in the model's folder, no
// symbolic links, no devices (O_NONBLOCK keeps a FIFO from blocking the open).
static int open_file(struct bundle *b, const struct place *p, struct file **ret, struct error *e)
{
    for (uint32_t i = 0; i < b->n_files; i++)
        if (strcmp(b->files[i].name, p->location) == 0) {
            *ret = &b->files[i];
            return 0;
        }
    struct stat st;
    struct file *f = &b->files[b->n_files];
    bool plain = p->location[0] && !strchr(p->location, '/') && strcmp(p->location, "..") != 0;
    if (!plain)
        return error_set(e, STATUS_MODEL_INVALID,
                         "tensor %s lies in \"%s\": only files in the model's own folder are read",
                         p->tensor, p->location);
    if (b->n_files == MAX_FILES)
        return error_set(e, STATUS_MODEL_INVALID, "the model lies in more than %d files",
                         MAX_FILES);
    f->fd = openat(b->folder, p->location, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (f->fd < 0)
        return error_set_errno(e, STATUS_MODEL_INVALID, errno, "tensor %s lies in file %s%s",
                               p->tensor, p->location,
                               errno == ELOOP ? ", a symbolic link, which is not followed" : "");
    b->n_files++;
    memcpy(f->name, p->location, sizeof f->name);
    if (fstat(f->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return error_set(e, STATUS_MODEL_INVALID, "tensor %s lies in %s, which is no file",
                         p->tensor, p->location);
    f->size = (uint64_t)st.st_size;
    *ret = f;
    return 0;
}

// Adds raw_data with the tensor's bytes of the other file. Without a length it is all from offset
// on.
static int add_data(struct bundle *b, const struct place *p, struct error *e)
{
    struct file *f;
    int r = open_file(b, p, &f, e);
    if (r < 0)
        return r;
    uint64_t left = p->offset <= f->size ? f->size - p->offset : 0;
    uint64_t size = p->has_length ? p->length : left;
    if (p->offset > f->size || size > left)
        return error_set(e, STATUS_MODEL_INVALID,
                         "tensor %s is to be %llu bytes from %llu on of %s, which has %llu",
                         p->tensor, (unsigned long long)size, (unsigned long long)p->offset,
                         p->location, (unsigned long long)f->size);
    struct piece *header = add_piece(b, e);
    if (!header)
        return STATUS_MALLOC_FAIL;
    set_header(header, TENSOR_RAW, size);
    return add_range(b, f->fd, p->offset, size, e);
}

// ---- tensors ----

static bool take_number(const char *text, uint64_t *ret)
{
    char *end;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !*end && errno == 0;
}

// One key and value of external_data.
static bool take_entry(const struct bundle *b, const struct field *entry, struct place *p)
{
    char key[MAX_NAME] = "", value[MAX_NAME] = "";
    struct field f;
    bool good = true;
    for (uint64_t at = entry->at; good && next_field(b->fd, &at, entry->at + entry->size, &f);)
        if (f.number == ENTRY_KEY || f.number == ENTRY_VALUE)
            good = read_text(b->fd, &f, f.number == ENTRY_KEY ? key : value);
    if (strcmp(key, "location") == 0)
        memcpy(p->location, value, sizeof value);
    else if (strcmp(key, "offset") == 0)
        good = good && take_number(value, &p->offset);
    else if (strcmp(key, "length") == 0)
        good = p->has_length = good && take_number(value, &p->length);
    return good;
}

// Reads where a tensor's data is. Entries are only wrong if the tensor says that it is external.
static int find_place(const struct bundle *b, const struct field *tensor, struct place *p,
                      struct error *e)
{
    struct field f;
    bool good = true;
    *p = (struct place){.tensor = "(long name)"};
    for (uint64_t at = tensor->at; next_field(b->fd, &at, tensor->at + tensor->size, &f);) {
        if (f.number == TENSOR_NAME)
            read_text(b->fd, &f, p->tensor);
        else if (f.number == TENSOR_LOCATION && f.wire == 0)
            p->external = f.value == 1;
        else if (f.number == TENSOR_EXTERNAL && f.wire == 2)
            good = take_entry(b, &f, p) && good;
    }
    return good || !p->external ? 0
                                : error_set(e, STATUS_MODEL_INVALID,
                                            "tensor %s: its place in another file makes no "
                                            "sense",
                                            p->tensor);
}

// Rewrites one initializer: its fields but for the two about external data, then raw_data.
static int add_external(struct bundle *b, const struct field *tensor, const struct place *p,
                        struct error *e)
{
    struct field f;
    size_t first = b->n_pieces;
    int r = add_piece(b, e) ? 0 : STATUS_MALLOC_FAIL;
    for (uint64_t at = tensor->at; r == 0 && next_field(b->fd, &at, tensor->at + tensor->size, &f);)
        if (f.number != TENSOR_EXTERNAL && f.number != TENSOR_LOCATION)
            r = add_range(b, b->fd, f.start, at - f.start, e);
    if (r == 0)
        r = add_data(b, p, e);
    if (r == 0)
        close_message(b, first, GRAPH_INITIALIZER);
    return r;
}

static int add_graph_field(struct bundle *b, const struct field *f, uint64_t end, struct error *e)
{
    struct place p = {0};
    int r = f->number == GRAPH_INITIALIZER && f->wire == 2 ? find_place(b, f, &p, e) : 0;
    if (r == 0)
        r = p.external ? add_external(b, f, &p, e)
                       : add_range(b, b->fd, f->start, end - f->start, e);
    return r;
}

// What cannot be walked to its end is added as it is, from the first bad field on.
static int add_graph(struct bundle *b, const struct field *graph, struct error *e)
{
    struct field f;
    size_t first = b->n_pieces;
    uint64_t at = graph->at, end = graph->at + graph->size;
    int r = add_piece(b, e) ? 0 : STATUS_MALLOC_FAIL;
    while (r == 0 && next_field(b->fd, &at, end, &f))
        r = add_graph_field(b, &f, at, e);
    if (r == 0)
        r = add_range(b, b->fd, at, end - at, e);
    if (r == 0)
        close_message(b, first, MODEL_GRAPH);
    return r;
}

// Walks the fields of the model; from the first that makes no sense on, the rest stays as it is.
static int add_model(struct bundle *b, uint64_t size, struct error *e)
{
    struct field f;
    uint64_t at = 0;
    int r = 0;
    while (r == 0 && next_field(b->fd, &at, size, &f))
        r = f.number == MODEL_GRAPH && f.wire == 2 ? add_graph(b, &f, e)
                                                   : add_range(b, b->fd, f.start, at - f.start, e);
    if (r == 0)
        r = add_range(b, b->fd, at, size - at, e);
    for (size_t i = 0; i < b->n_pieces; i++)
        b->size += b->pieces[i].size;
    return r;
}

// ---- the one file ----

int bundle_open(int fd, uint64_t size, int folder, struct bundle **ret, struct error *e)
{
    struct bundle *b = calloc(1, sizeof *b);
    if (!b)
        return error_no_memory(e, "the model's files", sizeof *b);
    b->fd = fd;
    b->folder = folder;
    int r = add_model(b, size, e);
    if (r < 0 || b->n_files == 0) {
        bundle_free(b);
        b = NULL;
    }
    if (r == 0)
        *ret = b;
    return r;
}

uint64_t bundle_size(const struct bundle *b)
{
    return b->size;
}

static int read_piece(const struct piece *p, uint64_t at, size_t size, uint8_t *to, struct error *e)
{
    if (p->fd >= 0)
        return read_at(p->fd, p->offset + at, size, to, e);
    memcpy(to, p->header + at, size);
    return 0;
}

// Finds the piece that has byte `at`, then reads through the pieces in order.
int bundle_read(const struct bundle *b, uint64_t at, size_t size, uint8_t *to, struct error *e)
{
    int r = 0;
    for (size_t i = 0; i < b->n_pieces && size > 0 && r == 0; i++) {
        const struct piece *p = &b->pieces[i];
        if (at >= p->size) {
            at -= p->size;
            continue;
        }
        size_t n = p->size - at < size ? (size_t)(p->size - at) : size;
        r = read_piece(p, at, n, to, e);
        to += n;
        size -= n;
        at = 0;
    }
    return r;
}

void bundle_free(struct bundle *b)
{
    if (!b)
        return;
    for (uint32_t i = 0; i < b->n_files; i++)
        fd_close(b->files[i].fd);
    free(b->pieces);
    free(b);
}
