// Manual pages as tests compare them with tables.
#pragma once

/// A file below the source's folder without what roff adds (macros, fonts), spaces and brackets, so
/// that `.BI tcp: HOST \fR[\fP: PORT \fR]\fP` reads "tcp:HOST:PORT". malloc'ed.
char *manual_read(const char *path);

/// "tcp:" and "HOST[:PORT]" as manual_read() has them: "tcp:HOST:PORT".
const char *manual_form(const char *scheme, const char *syntax, char ret[static 80]);
