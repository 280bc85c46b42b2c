add_library(fake_server STATIC fake_server.c)
target_link_libraries(fake_server PRIVATE rknnd_options PUBLIC base protocol Threads::Threads)

rknnd_test(test_client_calls SOURCES test_client_calls.c LIBS rknnrt_core fake_server LABELS tsan)
rknnd_test(test_client_runs SOURCES test_client_runs.c LIBS rknnrt_core fake_server LABELS tsan)
rknnd_test(test_client_upload SOURCES test_client_upload.c LIBS rknnrt_core fake_server LABELS tsan)
rknnd_test(test_client_faults SOURCES test_client_faults.c LIBS rknnrt_core fake_server)
