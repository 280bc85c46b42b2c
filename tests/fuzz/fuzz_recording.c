// Fuzzes the parser of recordings, and the decoding of the messages in them.
#include "client/record/recording.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct recording r;
    struct recorded f;
    union message_any m;
    if (recording_open(&r, (struct bytes){data, size}, NULL) < 0)
        return 0;
    while (recording_next(&r, &f, NULL) > 0) {
        const pb_msgdesc_t *fields = message_fields(&f.header);
        if (fields)
            message_decode(fields, f.message, &m, NULL);
    }
    return 0;
}
