// The container of a .rknn file (docs/rknn-format.md, Container):
//
//      0        8          16            24             64           64 + N      72 + N
//      | "RKNN" | version u64 | N u64    | reserved     | payload N  | J u64      | JSON, J bytes
//
// Version 1 has nothing reserved. The payload of versions 1, 2 and 6 is one flatbuffer. That of the
// lite one (RV1103, RV1106) is
//
//      | 16 x u32 sizes | tasks | commands | constants of sub-tasks | weights | flatbuffer |
//
// Every size is untrusted: parts are taken with bytes_slice(), which refuses what reaches past the
// end.
#include "npu/model/rknn/rknn_container.h"

#include <string.h>

#define VERSION_LITE   0x1004
#define N_SECTIONS     16 // numbers in the header of the lite container
#define KNOWN_SECTIONS 7  // of them

static const struct {
    const char *magic;
    enum rknn_kind kind;
    const char *words;
} magics[] = {
    {"CYPTRKNN", RKNN_ENCRYPTED,
     "the model is encrypted: it needs the vendor's runtime; the .rknn file that it was encrypted "
     "from (rknn.export_encrypted_rknn_model) runs"},
    {"RKNX", RKNN_NEXT,
     "the model is of the next generation (RKNX): it needs the vendor's newer runtime"},
    {"VPMN", RKNN_BINARY_GRAPH, "the file is an old binary graph (VPMN), not a model for this NPU"},
    {"RKNN", RKNN_PLAIN, ""},
};

// The index of the magic that the file begins with; -1: none.
static int find_magic(struct bytes file)
{
    for (int i = 0; i < (int)(sizeof magics / sizeof *magics); i++)
        if (bytes_start_with(file, magics[i].magic))
            return i;
    return -1;
}

enum rknn_kind rknn_recognise(struct bytes file)
{
    int i = find_magic(file);
    return i < 0 ? RKNN_UNKNOWN : magics[i].kind;
}

static int cut_off(const char *what, struct error *e)
{
    return error_set(e, STATUS_MODEL_INVALID,
                     "the file is cut off: %s is missing or too short; copy it again", what);
}

// The sections of a lite payload, in file order. They follow each other without gaps, so a wrong
// size shifts all later ones: a size in a header field that is not understood must be refused.
static int open_lite(struct rknn_container *c, struct bytes payload, struct error *e)
{
    struct bytes header;
    if (!bytes_slice(payload, 0, 4 * N_SECTIONS, &header))
        return cut_off("the section header", e);
    uint32_t meta_size = read_le32(header.data), task_bytes = read_le32(header.data + 4);
    uint32_t register_bytes = read_le32(header.data + 12);
    uint32_t weight_bytes = read_le32(header.data + 20);
    uint32_t scratch_bytes = read_le32(header.data + 24);
    c->internal_size = read_le32(header.data + 16);

    uint64_t at = header.size;
    const struct {
        uint32_t size;
        struct bytes *part;
        const char *name;
    } sections[] = {{task_bytes, &c->tasks, "the tasks"},
                    {register_bytes, &c->registers, "the register commands"},
                    {scratch_bytes, &c->scratch, "the constants of sub-tasks"},
                    {weight_bytes, &c->weights, "the weights"},
                    {meta_size, &c->meta, "the graph"}};
    for (size_t i = KNOWN_SECTIONS; i < N_SECTIONS; i++)
        if (read_le32(header.data + 4 * i))
            return error_set(e, STATUS_MODEL_INVALID,
                             "number %zu of the section header is %u: such a section is not known",
                             i, read_le32(header.data + 4 * i));
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        if (!bytes_slice(payload, at, sections[i].size, sections[i].part))
            return cut_off(sections[i].name, e);
        at += sections[i].size;
    }
    return 0;
}

// Container version 1 was used twice: by RKNPU1's toolkits, for other hardware, and by the first
// RKNPU2 toolkits (up to 1.2), which put a flatbuffer (identifier at byte 4) at 0x18. The caller
// has checked that the file reaches 0x18.
static bool is_rknpu1(struct bytes file)
{
    struct bytes payload;
    return !bytes_slice(file, 0x18, file.size - 0x18, &payload) || payload.size < 8 ||
           memcmp(payload.data + 4, "RKNN", 4) != 0;
}

// Finds payload and JSON of a file with magic "RKNN". The 40 reserved bytes before the payload are
// there when the low byte of the version is above 1; their contents are not checked, as toolkits
// leave garbage there.
static int open_parts(struct rknn_container *c, struct bytes file, struct error *e)
{
    if (file.size < 0x18)
        return cut_off("the header", e);
    c->version = read_le64(file.data + 8);
    if (c->version == 1 && is_rknpu1(file))
        return error_set(
            e, STATUS_MODEL_INVALID,
            "the model is for RKNPU1 (RV1109, RV1126, RK1808, RK3399Pro), other "
            "hardware than RKNPU2: convert it again with RKNN-Toolkit2, for this chip");
    bool lite = c->version == VERSION_LITE;
    c->blobs = c->version == 1 || c->version == 2;
    if (!c->blobs && c->version != 6 && !lite)
        return error_set(e, STATUS_MODEL_INVALID,
                         "container version 0x%llx is not known (1, 2, 6 and 0x1004 are, which "
                         "RKNN-Toolkit2 up to 2.3.2 writes): a newer toolkit made the file, or it "
                         "is damaged; convert the model again with 2.3.2",
                         (unsigned long long)c->version);
    uint64_t start = (c->version & 0xff) > 1 ? 0x40 : 0x18, size = read_le64(file.data + 0x10);
    struct bytes payload, length;
    if (!bytes_slice(file, start, size, &payload))
        return cut_off("the model", e);
    if (!bytes_slice(file, start + size, 8, &length) ||
        !bytes_slice(file, start + size + 8, read_le64(length.data), &c->json))
        return cut_off("the description at the end", e);
    c->kind = lite ? RKNN_LITE : RKNN_PLAIN;
    c->meta = payload;
    return lite ? open_lite(c, payload, e) : 0;
}

// What else people have at hand, and what to do with it.
static const struct {
    uint8_t at, size;
    const char *bytes, *words;
} others[] = {
    {4, 4, "TFL3", "the file is a TensorFlow Lite model: make .onnx of it (tf2onnx), or .rknn"},
    {4, 4, "ORTM", "the file is an .ort model of ONNX Runtime: use the .onnx that it was made of"},
    {0, 4, "PK\3\4", "the file is a ZIP archive, as PyTorch's models are: export .onnx of it"},
    {0, 4, "\x89HDF", "the file is HDF5, as Keras' models are: make .onnx of it (tf2onnx)"},
    {0, 7, "7767517", "the file is an ncnn model: use the .onnx that it was made of"},
    {0, 5, "<?xml", "the file is XML, as OpenVINO's models are: use the .onnx that it was made of"},
    {0, 15, "version https:/",
     "the file is Git LFS' note in place of a model: fetch the model itself (git lfs pull)"},
    {0, 9, "<!DOCTYPE", "the file is a page of the web: download the model itself"},
    {0, 5, "<html", "the file is a page of the web: download the model itself"},
};

// Words for a file without a known magic. A whole ONNX model is not seen here. One that is cut off
// or damaged begins with protobuf field 1 (0x08, ir_version, a small number).
static int refuse_unknown(struct bytes file, struct error *e)
{
    if (file.size >= 2 && file.data[0] == 0x08 && file.data[1] > 0 && file.data[1] < 0x20)
        return error_set(e, STATUS_MODEL_INVALID,
                         "the file begins like an ONNX model, but is cut off or damaged (%zu "
                         "bytes): copy it again",
                         file.size);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (file.size >= (size_t)others[i].at + others[i].size &&
            memcmp(file.data + others[i].at, others[i].bytes, others[i].size) == 0)
            return error_set(e, STATUS_MODEL_INVALID, "%s", others[i].words);
    return error_set(e, STATUS_MODEL_INVALID,
                     "the file (%zu bytes) is neither a .rknn nor an .onnx model", file.size);
}

int rknn_container_open(struct rknn_container *c, struct bytes file, struct error *e)
{
    int i = find_magic(file);
    *c = (struct rknn_container){.kind = i < 0 ? RKNN_UNKNOWN : magics[i].kind};
    if (i < 0)
        return refuse_unknown(file, e);
    if (magics[i].kind != RKNN_PLAIN)
        return error_set(e, STATUS_MODEL_INVALID, "%s", magics[i].words);
    return open_parts(c, file, e);
}
