// Models in memory on the server that contexts of this thread use.
#pragma once

#include "base/error.h"
#include "quant/model/quant_model.h"
#include "rknnd.h"

/// A failure of the client library, in its words. Returns `code`.
int quant_server_words(int code, struct error *e);

/// Opens a model there, by a file that has no name: it is gone even where this process is killed.
int quant_server_open(const struct quant_model *m, rknn_context *ret, struct error *e);
