rknnd_test(test_sched SOURCES test_sched.c sched_sim.c LIBS server_core tensor base)
