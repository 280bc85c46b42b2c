// Status codes: the one list of what can go wrong, shared by every layer and by the wire.
#pragma once

// The numbers and names are those of the RKNN C API (RKNN_SUCC, RKNN_ERR_*), so that a status
// travels from a device to the program's return value unchanged. The text is for people.
// clang-format off
#define STATUS_LIST(X)                                                                   \
    X(0,   OK,                       "success")                                          \
    X(-1,  FAIL,                     "failed")                                           \
    X(-2,  TIMEOUT,                  "timed out")                                        \
    X(-3,  DEVICE_UNAVAILABLE,       "device unavailable")                               \
    X(-4,  MALLOC_FAIL,              "out of memory")                                    \
    X(-5,  PARAM_INVALID,            "invalid parameter")                                \
    X(-6,  MODEL_INVALID,            "invalid model")                                    \
    X(-7,  CTX_INVALID,              "invalid context")                                  \
    X(-8,  INPUT_INVALID,            "invalid input")                                    \
    X(-9,  OUTPUT_INVALID,           "invalid output")                                   \
    X(-10, DEVICE_UNMATCH,           "device and library do not match")                  \
    X(-11, PRE_COMPILE_MODEL,        "pre-compiled model does not fit the driver")       \
    X(-12, OPTIMIZATION_LEVEL,       "model's optimization level does not fit")          \
    X(-13, TARGET_PLATFORM_UNMATCH,  "model is for another chip")
// clang-format on

enum status {
#define X(code, name, text) STATUS_##name = code,
    STATUS_LIST(X)
#undef X
};

/// The text of a code; "unknown status" for a number that is not in the list. Never NULL.
const char *status_text(int code);

/// `code` if it is a known failure, else STATUS_FAIL: for codes that come from a peer.
int status_from_peer(int code);
