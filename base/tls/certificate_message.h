// Certificates of a peer about whom nothing is known yet.
#pragma once

#include <stddef.h>
#include <stdint.h>

// What a peer may show: eight certificates with RSA keys of 4,096 bits have that many bytes.
// OpenSSL computes with each key, up to 1 ms where its point is compressed, before it looks whether
// any of them counts.
#define CERTIFICATES_SENT_MAX   8
#define CERTIFICATES_SENT_BYTES 16384u

/// Of TLS's Certificate message (RFC 8446, 4.4.2) with its head: why it is not to be read at all,
/// in words, or NULL, also of one that is broken.
const char *certificate_message_fault(const uint8_t *message, size_t size);
