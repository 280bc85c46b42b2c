// What the programs of this folder share: checks, files, the plain way through the API. Nothing but
// C and the RKNN API, so that they can be built and run against the vendor's library as well.
//
// A program is started with the folder of its models: NAME.rknn, NAME.in<i>.bin (inputs as
// rknn_inputs_set takes them: uint8 or float32, NHWC when 4-D), NAME.out<i>.bin (expected outputs
// in the model's own type, NCHW).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/checks/scalar.h"

#include "rknn_api.h"

/// Takes the folder of models from the command line; ends the program if there is none.
void conformance_start(int argc, char **argv);

/// Says how it went; the program's exit code.
int conformance_finish(void);

/// Skips the rest: the other side does not offer what is tested, and may do so.
_Noreturn void conformance_skip(const char *why);

/// Counts a check and says what failed; any thread. Returns `good`.
bool conformance_check(bool good, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/// Checks what has no values to be shown, and goes on.
#define EXPECT(condition) conformance_check((condition), __FILE__, __LINE__, "%s", #condition)

/// Compares numbers or pointers of any types, by one of C's six operators: EXPECT_CMP(n, <, 3).
#define EXPECT_CMP(got, op, expected)                                                              \
    conformance_compare_values(SCALAR(got), #op, SCALAR(expected), #got " " #op " " #expected,     \
                               __FILE__, __LINE__)
bool conformance_compare_values(struct scalar got, const char *op, struct scalar expected,
                                const char *expression, const char *file, int line);

/// Compares texts, and bytes.
#define EXPECT_STRING(got, expected)                                                               \
    conformance_compare_strings(got, expected, #got, __FILE__, __LINE__)
#define EXPECT_MEMORY(got, expected, size)                                                         \
    conformance_compare_memory(got, expected, size, #got, __FILE__, __LINE__)
bool conformance_compare_strings(const char *got, const char *expected, const char *expression,
                                 const char *file, int line);
bool conformance_compare_memory(const void *got, const void *expected, size_t size,
                                const char *expression, const char *file, int line);

/// Checks what an API function returns.
#define EXPECT_CODE(code, call)                                                                    \
    ({                                                                                             \
        int got_ = (call), wanted_ = (code);                                                       \
        conformance_check(got_ == wanted_, __FILE__, __LINE__, "%s: got %d, expected %d", #call,   \
                          got_, wanted_);                                                          \
    })

#define EXPECT_OK(call) EXPECT_CODE(RKNN_SUCC, call)

/// Checks that a call is refused with a code, and with words that hold `word` if the library has
/// words.
#define EXPECT_REFUSED(code, word, call)                                                           \
    do {                                                                                           \
        EXPECT_CODE(code, call);                                                                   \
        conformance_expect_words(__FILE__, __LINE__, word);                                        \
    } while (0)

/// Checks the words of the last failure.
void conformance_expect_words(const char *file, int line, const char *word);

/// Checks what the rest cannot do without.
#define NEED(condition)                                                                            \
    do {                                                                                           \
        if (!EXPECT(condition))                                                                    \
            exit(conformance_finish());                                                            \
    } while (0)
#define NEED_CMP(got, op, expected)                                                                \
    do {                                                                                           \
        if (!EXPECT_CMP(got, op, expected))                                                        \
            exit(conformance_finish());                                                            \
    } while (0)
#define NEED_OK(call)                                                                              \
    do {                                                                                           \
        if (!EXPECT_OK(call))                                                                      \
            exit(conformance_finish());                                                            \
    } while (0)

/// A file of the models' folder, malloc'ed. `name` as printf's.
void *conformance_file(size_t *ret_size, const char *name, ...)
    __attribute__((format(printf, 2, 3)));

/// Opens FOLDER/name, which has been read into memory; skips the rest if it is for another chip.
rknn_context conformance_open(const char *name, uint32_t flags);

/// The attributes of all inputs or outputs, malloc'ed; their number is that of `query`'s kind.
rknn_tensor_attr *conformance_attrs(rknn_context c, rknn_query_cmd query);
rknn_input_output_num conformance_count(rknn_context c);

/// Sets all inputs to FOLDER/NAME.in<i>.bin.
void conformance_set_inputs(rknn_context c, const char *name);

// What the RKNN API cannot say. A program that is linked without rknnd_says.c and rknnd_dynamic.c,
// for another library than ours, learns nothing from the first two and is skipped at the third.

/// The library's words for the thread's last failure; NULL: it has none.
const char *conformance_words(void);

/// The cores that the context's last run had, bit i for core i; 0: not known.
uint32_t conformance_cores(rknn_context c);

/// Opens a model of dynamic shapes: how they come to be is the server's matter.
rknn_context conformance_open_shape_sets(const char *name, const char *shape_sets, uint32_t flags);

/// Compares n stored values in the attribute's type with FOLDER/NAME.out<index>.bin: equal within
/// one step for integers, within a relative 1/500 for float16.
void conformance_compare(const rknn_tensor_attr *a, const char *name, uint32_t index,
                         const void *values, size_t size);

/// Gets all outputs by rknn_outputs_get() and compares them; of a model of dynamic shapes in those
/// that are set.
void conformance_expect_outputs(rknn_context c, const char *name);
void conformance_expect_current_outputs(rknn_context c, const char *name);

/// The numbers that `size` bytes of a type hold, as doubles, malloc'ed.
double *conformance_numbers(rknn_tensor_type type, const void *values, size_t size, size_t *ret_n);
