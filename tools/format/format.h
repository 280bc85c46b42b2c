// Numbers, sizes and shapes as people read them. Each function writes into the caller's buffer,
// always terminated, and returns it.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct format_buffer {
    char text[200]; // holds 16 dims of 10 digits
};

/// "64 B", "1.50 KiB", "8.17 MiB": three digits, powers of 1,024.
const char *format_bytes(struct format_buffer *b, uint64_t bytes);

/// "740 ns", "12.3 us", "4.56 ms", "1.23 s": three digits.
const char *format_ns(struct format_buffer *b, uint64_t ns);
const char *format_us(struct format_buffer *b, uint64_t us);

/// "1x224x224x3"; "scalar" for no dims.
const char *format_dims(struct format_buffer *b, const uint32_t *dims, uint32_t n_dims);

/// The indices of element `flat` in a row-major tensor: "[0,3,12,7]"; "[7]" for one dim.
const char *format_index(struct format_buffer *b, uint64_t flat, const uint32_t *dims,
                         uint32_t n_dims);

/// Days, hours, minutes or seconds, the two largest: "2 d 3 h", "4 min 5 s", "0.25 s".
const char *format_uptime(struct format_buffer *b, uint64_t ms);
