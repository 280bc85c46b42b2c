// How a model gets a list of shapes from the stand-in for the vendor's library (tests/standin): an
// ONNX model behind the list, in one file.
#include "../conformance.h"

rknn_context conformance_open_shape_sets(const char *name, const char *shape_sets, uint32_t flags)
{
    static const char magic[] = "STANDIN\n";
    rknn_context c = 0;
    size_t size, head = strlen(magic) + strlen(shape_sets) + 1;
    void *model = conformance_file(&size, "%s.onnx", name);
    char *file = malloc(head + size);
    NEED(file);
    snprintf(file, head, "%s%s", magic, shape_sets);
    memcpy(file + head, model, size);
    NEED_OK(rknn_init(&c, file, (uint32_t)(head + size), flags, NULL));
    free(file);
    free(model);
    return c;
}
