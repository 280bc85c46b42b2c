// Threads that work beside one that others wait for.
#pragma once

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

/// The calling thread has less of the processor than the others from now on: ordinary time sharing,
/// also where the program was started with a real-time policy, and `nice` of setpriority(2).
static inline void step_back(int nice)
{
    sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
    setpriority(PRIO_PROCESS, (id_t)gettid(), nice);
}
