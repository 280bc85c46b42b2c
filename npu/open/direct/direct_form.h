// Whether what a program has in its memory is, byte for byte, what the NPU reads or writes.
#pragma once

#include "npu/open/open_model.h"

/// Sets port->same and same_flipped of a model's input: types whose values converting them for the
/// NPU would not change.
void direct_form_values(struct open_port *port, const struct tensor_io *io);

/// NULL: it is. Else why not, static text. Looks at no data; `input` is from its start on.
const char *direct_form_input(const struct open_port *port, const struct tensor_io *io,
                              const struct npu_input *input);

/// Of an input that it is: whether the chip has to take 128 off for that, beyond what the file
/// says.
bool direct_form_flips(const struct open_port *port, const struct npu_input *input);

/// As direct_form_input().
const char *direct_form_output(const struct open_port *port, const struct tensor_io *io,
                               const struct npu_output *output);
