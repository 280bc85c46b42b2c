// Values of any scalar type, compared and written down, so that a check that fails can say what
// came and what was expected. Nothing but C: the conformance programs have it too.
#pragma once

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// Checks stand in loops, also of unoptimized builds: what is not told needs few instructions.
#define SCALAR_FAST static inline __attribute__((always_inline))

struct scalar {
    enum scalar_kind {
        SCALAR_SIGNED, // below 0
        SCALAR_UNSIGNED,
        SCALAR_REAL,
        SCALAR_POINTER
    } kind;
    union {
        intmax_t i;
        uintmax_t u;
        double real;
    };
};

SCALAR_FAST struct scalar scalar_signed(intmax_t v)
{
    return v < 0 ? (struct scalar){SCALAR_SIGNED, .i = v}
                 : (struct scalar){SCALAR_UNSIGNED, .u = (uintmax_t)v};
}

SCALAR_FAST struct scalar scalar_unsigned(uintmax_t v)
{
    return (struct scalar){SCALAR_UNSIGNED, .u = v};
}

SCALAR_FAST struct scalar scalar_real(double v)
{
    return (struct scalar){SCALAR_REAL, .real = v};
}

SCALAR_FAST struct scalar scalar_pointer(const void *v)
{
    return (struct scalar){SCALAR_POINTER, .u = (uintptr_t)v};
}

// clang-format off
/// What an expression gives, evaluated once. ?: makes small types, bit-fields too, int.
#define SCALAR(x)     SCALAR_OF(x, float: scalar_real, double: scalar_real,)
/// The same of an integer or a pointer; of a real number it is not compiled.
#define SCALAR_INT(x) SCALAR_OF(x,)
#define SCALAR_OF(x, ...)                 \
    _Generic(1 ? (x) : (x),              \
        int: scalar_signed,               \
        long: scalar_signed,              \
        long long: scalar_signed,         \
        unsigned int: scalar_unsigned,    \
        unsigned long: scalar_unsigned,   \
        unsigned long long: scalar_unsigned, \
        __VA_ARGS__ default: scalar_pointer)(x)
// clang-format on

SCALAR_FAST double scalar_number(struct scalar v)
{
    return v.kind == SCALAR_REAL ? v.real : v.kind == SCALAR_SIGNED ? (double)v.i : (double)v.u;
}

/// -1, 0 or 1 for a below, equal to or above b; 2: one of them is NaN. Whole numbers are exact.
SCALAR_FAST int scalar_order(struct scalar a, struct scalar b)
{
    if (a.kind == SCALAR_REAL || b.kind == SCALAR_REAL) {
        double x = scalar_number(a), y = scalar_number(b);
        return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
    }
    if (a.kind == SCALAR_SIGNED && b.kind == SCALAR_SIGNED)
        return (a.i > b.i) - (a.i < b.i);
    if (a.kind == SCALAR_SIGNED || b.kind == SCALAR_SIGNED) // only numbers below 0 are
        return a.kind == SCALAR_SIGNED ? -1 : 1;
    return (a.u > b.u) - (a.u < b.u);
}

/// Whether `a op b` holds in mathematics: -1 is less than 1u. `op` is one of C's six.
SCALAR_FAST bool scalar_holds(struct scalar a, const char *op, struct scalar b)
{
    int order = scalar_order(a, b);
    bool or_equal = op[1] == '=' && order == 0;
    return op[0] == '='   ? order == 0
           : op[0] == '!' ? order != 0
           : op[0] == '<' ? order == -1 || or_equal
                          : order == 1 || or_equal;
}

struct scalar_text {
    char text[64];
};

static inline struct scalar_text scalar_text(struct scalar v)
{
    struct scalar_text t;
    if (v.kind == SCALAR_REAL)
        snprintf(t.text, sizeof t.text, "%.9g", v.real);
    else if (v.kind == SCALAR_SIGNED)
        snprintf(t.text, sizeof t.text, "%" PRIdMAX, v.i);
    else if (v.kind == SCALAR_POINTER)
        snprintf(t.text, sizeof t.text, "0x%" PRIxMAX, v.u);
    else
        snprintf(t.text, sizeof t.text, v.u < 256 ? "%" PRIuMAX : "%" PRIuMAX " (0x%" PRIxMAX ")",
                 v.u, v.u);
    return t;
}

/// "expected 3", "expected < 3".
static inline struct scalar_text scalar_expected(const char *op, struct scalar v)
{
    struct scalar_text t, number = scalar_text(v);
    snprintf(t.text, sizeof t.text, "expected %.2s%s%.48s", op[0] == '=' ? "" : op,
             op[0] == '=' ? "" : " ", number.text);
    return t;
}
