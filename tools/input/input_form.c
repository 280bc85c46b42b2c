// How the data of each input is to be read, from --layout, --type, --fit and --pad. An option is
// checked when it is parsed (input_layout_option, …), without the model; when the model is open,
// the same setters fill the form of each input (input_forms_make).
#include "tools/input/input_form.h"

#include <string.h>
#include <strings.h>

#include "base/options/number.h"
#include "tools/format/npy_file.h"
#include "tools/input/input_check.h"

#define DEFAULT_COLOUR 114 // that of detectors' training data

enum input_option { INPUT_LAYOUT, INPUT_TYPE, INPUT_FIT, INPUT_PAD };

// Parses one option's value into a form. Errors do not name the option.
typedef int set_value(const char *text, struct input_form *form, struct error *e);

static int set_layout(const char *text, struct input_form *form, struct error *e)
{
    form->native = strcasecmp(text, "native") == 0;
    if (form->native)
        return 0;
    if (strcasecmp(text, "nhwc") != 0 && strcasecmp(text, "nchw") != 0)
        return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is not nhwc, nchw or native", text);
    form->layout = strcasecmp(text, "nchw") == 0 ? RKNN_TENSOR_NCHW : RKNN_TENSOR_NHWC;
    return 0;
}

static int set_type(const char *text, struct input_form *form, struct error *e)
{
    form->raw = true;
    enum tensor_type type;
    if (npy_type_named(text, &type)) {
        form->type = (rknn_tensor_type)type;
        return 0;
    }
    return error_set(e, STATUS_PARAM_INVALID,
                     "\"%s\" is not float32, float16, int8, uint8, int16, uint16, int32, "
                     "uint32, int64 or bool",
                     text);
}

// "exact" is accepted too, to except one input from a --fit for all.
static int set_fit(const char *text, struct input_form *form, struct error *e)
{
    for (form->fit = IMAGE_FIT_EXACT; form->fit <= IMAGE_CROP; form->fit++)
        if (strcasecmp(text, image_fit_name(form->fit)) == 0)
            return 0;
    return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is not letterbox, stretch, crop or exact",
                     text);
}

static int refuse_colour(const char *text, struct error *e)
{
    return error_set(e, STATUS_PARAM_INVALID, "\"%s\" is not a gray like 114 or R,G,B like 0,0,0",
                     text);
}

// G or R,G,B, each 0 to 255. One number is the gray of all three channels.
static int set_colour(const char *text, struct input_form *form, struct error *e)
{
    const char *at = text;
    for (form->n_colour = 0;; at++) {
        char number[8] = "", *end = number;
        size_t n = strcspn(at, ",");
        uint64_t v;
        if (n < sizeof number)
            end = mempcpy(number, at, n);
        *end = 0;
        if (number_parse(number, 0, 255, &v, NULL) < 0)
            return refuse_colour(text, e);
        form->colour[form->n_colour++] = (uint8_t)v;
        at += n;
        if (!*at || form->n_colour == 3)
            break;
    }
    if (!*at && form->n_colour == 1)
        memset(form->colour, form->colour[0], sizeof form->colour);
    if (!*at && (form->n_colour == 1 || form->n_colour == 3))
        return 0;
    return refuse_colour(text, e);
}

static set_value *const setters[] = {[INPUT_LAYOUT] = set_layout,
                                     [INPUT_TYPE] = set_type,
                                     [INPUT_FIT] = set_fit,
                                     [INPUT_PAD] = set_colour};
static const char *const names[] = {[INPUT_LAYOUT] = "--layout",
                                    [INPUT_TYPE] = "--type",
                                    [INPUT_FIT] = "--fit",
                                    [INPUT_PAD] = "--pad"};

// The value behind the last =: no value contains one, names of inputs may.
static const char *value_of(const char *text)
{
    const char *equals = strrchr(text, '=');
    return equals ? equals + 1 : text;
}

// Parses into a form that is thrown away.
static int take_option(enum input_option option, struct text_list *list, const char *text,
                       struct error *e)
{
    struct input_form form = {0};
    int r = setters[option](value_of(text), &form, e);
    return r < 0 ? r : text_list_add(list, text, e);
}

int input_layout_option(void *list, const char *text, struct error *e)
{
    return take_option(INPUT_LAYOUT, list, text, e);
}

int input_type_option(void *list, const char *text, struct error *e)
{
    return take_option(INPUT_TYPE, list, text, e);
}

int input_fit_option(void *list, const char *text, struct error *e)
{
    return take_option(INPUT_FIT, list, text, e);
}

int input_pad_option(void *list, const char *text, struct error *e)
{
    return take_option(INPUT_PAD, list, text, e);
}

// Two passes: values for all inputs first, then those for one, which therefore win in any order.
static int apply_choice(enum input_option option, const struct text_list *list,
                        const rknn_tensor_attr *attrs, uint32_t n, struct input_form *forms,
                        struct error *e)
{
    int r = 0;
    for (size_t i = 0; i < list->n && r == 0; i++)
        for (uint32_t k = 0; k < n && r == 0 && !strchr(list->items[i], '='); k++)
            r = setters[option](list->items[i], &forms[k], e);
    for (size_t i = 0; i < list->n && r == 0; i++) {
        const char *text = list->items[i], *value = value_of(text);
        uint32_t index;
        if (value == text)
            continue;
        r = inputs_find(names[option], text, (size_t)(value - text - 1), attrs, n, &index, e);
        if (r == 0)
            r = setters[option](value, &forms[index], e);
        if (r == 0 && option == INPUT_FIT)
            forms[index].fit_named = true;
    }
    return r;
}

// Defaults: NHWC, exact size, gray 114 padding as YOLO's letterbox uses.
int input_forms_make(const struct input_options *o, const rknn_tensor_attr *attrs, uint32_t n,
                     struct input_form *ret, struct error *e)
{
    for (uint32_t i = 0; i < n; i++)
        ret[i] = (struct input_form){.layout = RKNN_TENSOR_NHWC,
                                     .native = o->pass_through,
                                     .colour = {DEFAULT_COLOUR, DEFAULT_COLOUR, DEFAULT_COLOUR},
                                     .n_colour = 1};
    int r = apply_choice(INPUT_LAYOUT, &o->layouts, attrs, n, ret, e);
    if (r == 0)
        r = apply_choice(INPUT_TYPE, &o->types, attrs, n, ret, e);
    if (r == 0)
        r = apply_choice(INPUT_FIT, &o->fits, attrs, n, ret, e);
    return r ? r : apply_choice(INPUT_PAD, &o->pads, attrs, n, ret, e);
}

void input_options_done(struct input_options *o)
{
    text_list_done(&o->layouts);
    text_list_done(&o->types);
    text_list_done(&o->fits);
    text_list_done(&o->pads);
}
