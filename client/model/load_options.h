// Load options of models that this thread opens.
#pragma once

/// Never NULL; "": none. The thread's.
const char *load_options(void);
