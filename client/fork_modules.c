// The modules that fork() concerns, and the order of the library's locks.
//
// Where a thread holds two locks at once, it has taken the left one first:
//
//     server.lock  (its first connection makes the session)
//       ├─► spawn.lock      the private daemon is started, or handed a connection
//       └─► record
//     connection.lock  (a call holds it for as long as it lasts)
//       ├─► mem.lock        one memory: its mapping, and what servers know of it
//       ├─► servers         another connection of the session is made
//       ├─► keepalive       the same
//       └─► record          frames are recorded as they are sent and taken
//     keepalive ─► connection.lock, which it only tries: a call on the connection tends it anyway
//
// The other tables (selection, model, mem, handle) are held for a few lines that take nothing else.
// A program's callback is never run with a lock held: the context is lent meanwhile
// (context_lend()).
//
// fork() takes the locks of all tables, so that none is caught half changed. It does not take those
// of single connections, servers and memories: the child must not use its parent's, and
// keepalive_is_inherited() tells which these are.
#include "client/api/mem.h"
#include "client/fork.h"
#include "client/handle.h"
#include "client/link/keepalive.h"
#include "client/link/server_selection.h"
#include "client/link/servers.h"
#include "client/model/model.h"
#include "client/record/record.h"

const struct fork_module fork_modules[] = {
    {selection_before_fork, selection_after_fork}, {model_before_fork, model_after_fork},
    {server_before_fork, server_after_fork},       {mem_before_fork, mem_after_fork},
    {handle_before_fork, handle_after_fork},       {keepalive_before_fork, keepalive_after_fork},
    {record_before_fork, record_after_fork},
};
const size_t n_fork_modules = sizeof fork_modules / sizeof *fork_modules;
