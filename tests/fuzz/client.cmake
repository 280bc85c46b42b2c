rknnd_fuzz(fuzz_client SOURCES fuzz_client.c LIBS rknnrt_core CORPUS corpus/client)
