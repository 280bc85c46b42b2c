rknnd_fuzz(fuzz_client SOURCES fuzz_client.c LIBS rknnrt_core CORPUS corpus/client)
rknnd_fuzz(fuzz_bundle SOURCES fuzz_bundle.c LIBS rknnrt_core tensor base CORPUS corpus/bundle)
rknnd_fuzz(fuzz_recording SOURCES fuzz_recording.c LIBS rknnrt_core tensor base CORPUS corpus/recording)
