rknnd_fuzz(fuzz_frame SOURCES fuzz_frame.c LIBS protocol tensor base CORPUS corpus/frame)
rknnd_fuzz(fuzz_message SOURCES fuzz_message.c LIBS protocol tensor base CORPUS corpus/message)
