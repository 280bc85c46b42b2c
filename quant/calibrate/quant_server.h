// Models in memory on the server that contexts of this thread use.
#pragma once

#include "base/error.h"
#include "quant/model/quant_model.h"
#include "rknnd.h"

/// The client library's last words, without the name of the function that failed.
const char *quant_server_last_words(void);

/// A failure of the client library, in its words. Returns `code`.
int quant_server_words(int code, struct error *e);

/// Opens a model there, by a file that is gone again afterwards.
int quant_server_open(struct quant_model *m, rknn_context *ret, struct error *e);
