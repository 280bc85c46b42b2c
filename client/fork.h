// What makes the library survive fork() in the program.
#pragma once

/// Installs the handlers, once; called before the first state is made.
void fork_prepare(void);
