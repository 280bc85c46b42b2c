if(TARGET tools_media)
  rknnd_fuzz(fuzz_npy SOURCES fuzz_npy.c LIBS tools_media CORPUS corpus/npy)
  rknnd_fuzz(fuzz_image SOURCES fuzz_image.c LIBS tools_media CORPUS corpus/image)
endif()
