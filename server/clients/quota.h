// What one user may have: the option --quota, `USER:contexts=N,in-flight=N,bytes=N,share=N`; and
// what there is in all: --limit, without a user. The keys are those of account.h, and of each
// program those with "program." before them.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "server/clients/account.h"

#define QUOTA_MAX_SHARE 1000

// USER: a name or number of the system, "tls/" and an identity, "tls" (each identity), "tcp" (each
// address of the network), "usb", or "*"
// (everyone who has no quota of their own). Each user that "tcp" or "*" stands for has all of it.
struct quota {
    char user[32];
    bool is_local; // `uid` is meant, since the options were read
    uid_t uid;
    struct account_amounts limits;   // 0: none, so that what others leave is the limit
    struct account_amounts programs; // of each program of his; 0: none
    uint32_t share; // 1 … QUOTA_MAX_SHARE, 1 where nothing is said: device time beside other users
};

int quota_parse(const char *text, struct quota *ret, struct error *e);

/// `KEY=N[,KEY=N]…` into *limits and, of each program of anybody, *programs; what is not named
/// stays, and what has been given already is refused.
int quota_parse_limits(const char *text, struct account_amounts *limits,
                       struct account_amounts *programs, struct error *e);
