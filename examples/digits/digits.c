// Recognises handwritten digits with the RKNN C API: digits [-p] MODEL.rknn PICTURE.png…
// -p prints the time of each layer as well. Where the NPU is comes from RKNND_SERVER.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "rknn_api.h"

#define SIDE 8

static void print_attr(const char *what, const rknn_tensor_attr *a)
{
    printf("%s %u: %s, [", what, a->index, a->name);
    for (uint32_t i = 0; i < a->n_dims; i++)
        printf("%s%u", i ? ", " : "", a->dims[i]);
    printf("], %s, %s, %s, zp %d, scale %f\n", get_format_string(a->fmt), get_type_string(a->type),
           get_qnt_type_string(a->qnt_type), a->zp, (double)a->scale);
}

static int print_attrs(rknn_context ctx, const char *what, rknn_query_cmd cmd, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        rknn_tensor_attr attr = {.index = i};
        int r = rknn_query(ctx, cmd, &attr, sizeof attr);
        if (r < 0)
            return r;
        print_attr(what, &attr);
    }
    return 0;
}

static int describe(rknn_context ctx)
{
    rknn_sdk_version version;
    rknn_input_output_num num;
    rknn_mem_size mem;
    int r = rknn_query(ctx, RKNN_QUERY_SDK_VERSION, &version, sizeof version);
    if (r == 0)
        r = rknn_query(ctx, RKNN_QUERY_IN_OUT_NUM, &num, sizeof num);
    if (r == 0)
        r = rknn_query(ctx, RKNN_QUERY_MEM_SIZE, &mem, sizeof mem);
    if (r != RKNN_SUCC)
        return r;
    printf("runtime %s, driver %s\n", version.api_version, version.drv_version);
    printf("weights %u bytes, internal %u bytes\n", mem.total_weight_size, mem.total_internal_size);
    r = print_attrs(ctx, "input", RKNN_QUERY_INPUT_ATTR, num.n_input);
    return r < 0 ? r : print_attrs(ctx, "output", RKNN_QUERY_OUTPUT_ATTR, num.n_output);
}

/// An 8x8 picture as uint8; false with words on stderr.
static bool read_picture(const char *path, uint8_t pixels[SIDE * SIDE])
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    bool ok = png_image_begin_read_from_file(&image, path) != 0;
    if (ok && (image.width != SIDE || image.height != SIDE)) {
        fprintf(stderr, "%s: %ux%u pixels, %dx%d needed\n", path, image.width, image.height, SIDE,
                SIDE);
        png_image_free(&image);
        return false;
    }
    image.format = PNG_FORMAT_GRAY;
    ok = ok && png_image_finish_read(&image, NULL, pixels, SIDE, NULL) != 0;
    if (!ok)
        fprintf(stderr, "%s: %s\n", path, image.message);
    png_image_free(&image);
    return ok;
}

static int classify(rknn_context ctx, const char *path, uint8_t *pixels)
{
    rknn_input input = {
        .buf = pixels, .size = SIDE * SIDE, .type = RKNN_TENSOR_UINT8, .fmt = RKNN_TENSOR_NHWC};
    rknn_output output = {.want_float = 1};
    int r = rknn_inputs_set(ctx, 1, &input);
    if (r == 0)
        r = rknn_run(ctx, NULL);
    if (r == 0)
        r = rknn_outputs_get(ctx, 1, &output, NULL);
    if (r != RKNN_SUCC)
        return r;
    const float *probability = output.buf;
    uint32_t best = 0, count = output.size / (uint32_t)sizeof(float);
    for (uint32_t i = 1; i < count; i++)
        best = probability[i] > probability[best] ? i : best;
    printf("%s: %u (%.1f %%)\n", path, best, (double)probability[best] * 100);
    return rknn_outputs_release(ctx, 1, &output);
}

static int print_layers(rknn_context ctx)
{
    rknn_perf_detail detail;
    int r = rknn_query(ctx, RKNN_QUERY_PERF_DETAIL, &detail, sizeof detail);
    if (r == 0)
        printf("%.*s\n", (int)detail.data_len, detail.perf_data);
    return r;
}

int main(int argc, char **argv)
{
    bool perf = argc > 1 && strcmp(argv[1], "-p") == 0;
    int first = perf ? 2 : 1;
    if (argc < first + 2) {
        fprintf(stderr, "usage: %s [-p] MODEL.rknn PICTURE.png...\n", argv[0]);
        return EXIT_FAILURE;
    }
    rknn_context ctx;
    int r = rknn_init(&ctx, argv[first], 0, perf ? RKNN_FLAG_COLLECT_PERF_MASK : 0, NULL);
    if (r < 0) {
        fprintf(stderr, "%s: rknn_init says %d\n", argv[first], r);
        return EXIT_FAILURE;
    }
    r = describe(ctx);
    for (int i = first + 1; i < argc && r == 0; i++) {
        uint8_t pixels[SIDE * SIDE];
        r = read_picture(argv[i], pixels) ? classify(ctx, argv[i], pixels) : RKNN_ERR_FAIL;
    }
    if (r == 0 && perf)
        r = print_layers(ctx);
    rknn_destroy(ctx);
    if (r < 0)
        fprintf(stderr, "the RKNN API says %d\n", r);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
