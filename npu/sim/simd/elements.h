// Elements of tensors in their stored form (int8, fp16, … with a scale and a zero point), to floats
// and back, and the activations that are applied in between. Operators that have no kernel for a
// type of their own work on chunks of floats that stay in the first cache:
//
//   stored -> elements_load() -> float[ELEMENTS_CHUNK] -> compute, elements_post() ->
//   elements_store() -> stored
#pragma once

#include "npu/model/graph.h"
#include "npu/sim/simd/kernel.h"

// How many elements are worked on at a time: they and their operands stay in the first cache.
#define ELEMENTS_CHUNK 1024

struct element_form {
    enum tensor_type type;
    bool quantized;
    float scale;
    int32_t zp;
    int32_t odd; // 1: ties go to the even stored value, which is an odd quantized unit
};

static inline struct element_form element_form(const struct graph_tensor *t)
{
    return (struct element_form){
        .type = t->type,
        .quantized = t->quantized,
        .scale = t->scale,
        .zp = t->zp,
        .odd = t->quantized && !t->rounds_before_zp ? t->zp & 1 : 0,
    };
}

/// The forms of x and y for an operator that only averages or selects. Where both have one scale it
/// is left out, so that averages that lie between two quantized units are rounded as such.
void element_forms_of_average(const struct graph_tensor *x, const struct graph_tensor *y,
                              struct element_form *from, struct element_form *to);

/// True for the types that the functions below take.
bool element_type_known(enum tensor_type type);

/// n consecutive stored elements, which need not be aligned, as real numbers. src may lie behind
/// dst in the same memory (its end not before dst's).
void elements_load(const struct element_form *form, const void *src, size_t n, float *dst);

/// As elements_load, one element in `stride`.
void elements_load_strided(const struct element_form *form, const void *src, int64_t stride,
                           size_t n, float *dst);

/// A constant's elements as real numbers. dst takes n_elems.
void elements_of_constant(const struct graph_tensor *t, float *dst);

/// Real numbers to stored elements: rounded to nearest, ties to even (see
/// graph_tensor.rounds_before_zp), and saturated.
void elements_store(const struct element_form *form, void *dst, size_t n, const float *src);
void elements_store_strided(const struct element_form *form, void *dst, int64_t stride, size_t n,
                            const float *src);

/// What becomes of each of 256 stored bytes on the way from one 8-bit form to another, with the
/// given activations between.
void elements_table(const struct element_form *from, const struct graph_post *posts,
                    uint32_t n_posts, const struct element_form *to, int8_t table[256]);

/// Applies everything but POST_ADD and POST_LUT in place.
void elements_post(const struct graph_post *post, float *x, size_t n);
