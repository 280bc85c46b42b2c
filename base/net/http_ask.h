// What rknnd-http (helpers/http) asks the daemon, over the socket pair between them. One question
// is under way at a time; an answer that comes late is told by its number. An answer of number
// HTTP_RETIRE, to no question, says that another process accepts from now on: this one answers who
// is connected, and ends.
#pragma once

#include <stdint.h>

#define HTTP_MAX_SOCKETS 4 // that the daemon passes with the first byte (FD_MAX_PASSED)

#define HTTP_RETIRE 0

enum http_ask_what { HTTP_ASK_METRICS, HTTP_ASK_READY };

struct http_ask {
    uint32_t number, what;
};

// To METRICS comes a memfd with the text along. `yes` is 0 where there is none, and where the
// daemon takes no work (READY).
struct http_answer {
    uint32_t number, yes;
    uint64_t size; // of the text
};
