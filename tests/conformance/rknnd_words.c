// What rknnd says of the last failure.
#include "conformance.h"
#include "rknnd.h"

const char *conformance_words(void)
{
    return rknnd_last_error();
}
