// What of the daemon's environment a worker, rknnd-http and rknnd-announce have. The rest may be
// secrets of whoever starts the service (tokens, the manager's socket): code in a worker is not
// trusted (rknnd(8)), and the others hear strangers.
#pragma once

/// An array of "NAME=VALUE", ended by NULL: the caller's to free(), with texts of our environment,
/// which has to stay as it is. NULL: no memory. Any thread.
char **plain_environment(void);

/// For cleanup(): frees such an array, or NULL.
void free_environment(char ***array);
