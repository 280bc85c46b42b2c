// The yardstick of TLS: OpenSSL over blocking sockets of its own, which does nothing but send a
// request of fixed size and take a reply of fixed size.
#pragma once

#include <stddef.h>

/// Calls in a second over the loopback, measured for so long; by TLS 1.3 with a shared key and
/// AES-128-GCM, or (`tls` 0) by the sockets alone.
double bare_tls_measure(int tls, size_t request, size_t reply, double seconds);
