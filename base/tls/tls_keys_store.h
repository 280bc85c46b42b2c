// Changes files of pre-shared keys (tls_keys.h).
#pragma once

#include "base/tls/tls_keys.h"

/// Puts a key first into a file's text, instead of one of the same identity and server if there is
/// one; all else stays as it is. Refuses a text that cannot be parsed. Gives a text that the caller
/// wipes and frees. A key of no bytes is put nowhere: what was there of it is gone.
int tls_keys_insert(const char *text, size_t size, const struct tls_key *k, char **ret,
                    size_t *ret_size, struct error *e);

/// The same to a file, which others see with or without the key, never in between. One that is not
/// there is made, for its owner alone; if root makes it, also for the members of `group` to read
/// (NULL, or there is no such group: nobody). Folders that are missing are made. May block.
int tls_keys_store(const char *path, const char *group, const struct tls_key *k, struct error *e);
