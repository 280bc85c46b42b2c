add_library(fake_server STATIC fake_server.c)
target_link_libraries(fake_server PRIVATE rknnd_options PUBLIC tensor base protocol Threads::Threads)

rknnd_test(test_client_calls SOURCES test_client_calls.c LIBS rknnrt_core fake_server LABELS tsan)
rknnd_test(test_client_runs SOURCES test_client_runs.c LIBS rknnrt_core fake_server LABELS tsan)
rknnd_test(test_client_relay SOURCES test_client_relay.c LIBS rknnrt_core fake_server LABELS tsan)
rknnd_test(test_client_upload SOURCES test_client_upload.c LIBS rknnrt_core fake_server LABELS tsan)
rknnd_test(test_client_doctor SOURCES test_client_doctor.c LIBS rknnrt_core)
rknnd_test(test_client_faults SOURCES test_client_faults.c LIBS rknnrt_core fake_server)
rknnd_test(test_client_threads SOURCES test_client_threads.c LIBS rknnrt_core fake_server
  LABELS tsan)

add_executable(fake_daemon fake_daemon.c)
target_link_libraries(fake_daemon PRIVATE rknnd_options fake_server)
rknnd_test(test_client_spawn SOURCES test_client_spawn.c LIBS rknnrt_core)
target_compile_definitions(test_client_spawn PRIVATE FAKE_DAEMON="$<TARGET_FILE:fake_daemon>")
add_dependencies(test_client_spawn fake_daemon)
