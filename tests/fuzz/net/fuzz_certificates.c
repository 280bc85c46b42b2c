// Fuzzes what is looked at of a peer's certificates before OpenSSL reads them. Data: the message.
#include <stdlib.h>
#include <string.h>

#include "base/tls/certificate_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// In memory of its own size, so that what is read behind it is found.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *message = malloc(size ? size : 1);
    if (!message)
        return 0;
    if (size > 0)
        memcpy(message, data, size);
    certificate_message_fault(message, size);
    free(message);
    return 0;
}
