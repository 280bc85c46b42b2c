# What rknnctl reads and writes: .npy arrays, PNG, JPEG and BMP pictures.
if(TARGET tools_media)
  rknnd_test(test_npy SOURCES test_npy.c LIBS tools_media)
  rknnd_test(test_image_fit SOURCES test_image_fit.c LIBS tools_media m)
  rknnd_test(test_image SOURCES test_image.c LIBS tools_media png jpeg z)

  # Against numpy itself: the program copies a file by npy_read() and npy_write().
  add_executable(npy_copy npy_copy.c)
  target_link_libraries(npy_copy PRIVATE rknnd_options tools_media)
  rknnd_python_test(test_npy_numpy test_npy.py)
endif()
