//     head[4] context<0..255> list<0..2^24-1> of (certificate<1..2^24-1> extensions<0..2^16-1>)
//
// A key on an elliptic curve may bring the curve with it, in place of a name. OpenSSL computes with
// it as soon as it reads the certificate, and a curve can be made so that one point takes a tenth
// of a second. Nobody uses such keys (RFC 5480, 2.1.1, forbids them). Each such curve says what
// kind of field it has, by numbers that nothing else in a certificate begins with.
#include "base/tls/certificate_message.h"

#include <stdbool.h>
#include <string.h>

// What is left of the message.
struct rest {
    const uint8_t *at;
    size_t size;
};

// A number of so many bytes, and as many bytes as it says; false: they are not there.
static bool skip(struct rest *r, size_t width)
{
    size_t n = 0;
    if (r->size < width)
        return false;
    for (size_t i = 0; i < width; i++)
        n = n << 8 | r->at[i];
    if (n > r->size - width)
        return false;
    r->at += width + n;
    r->size -= width + n;
    return true;
}

static size_t count(const uint8_t *message, size_t size)
{
    struct rest r = {message + 4, size - 4};
    size_t n = 0;
    if (!skip(&r, 1) || r.size < 3)
        return 0;
    r.at += 3; // the list is all that is left
    r.size -= 3;
    while (skip(&r, 3)) {
        n++;
        if (!skip(&r, 2))
            break;
    }
    return n;
}

const char *certificate_message_fault(const uint8_t *message, size_t size)
{
    static const uint8_t field_type[] = {0x2a, 0x86, 0x48, 0xce, 0x3d, 1}; // 1.2.840.10045.1
    if (size < 4)
        return NULL;
    if (memmem(message, size, field_type, sizeof field_type))
        return "a certificate has a key with a curve of its own";
    return count(message, size) > CERTIFICATES_SENT_MAX ? "there are more than 8 certificates"
                                                        : NULL;
}
