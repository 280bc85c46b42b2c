if(TARGET tools_parts)
  rknnd_test(test_rknnctl_dot SOURCES test_rknnctl_dot.c LIBS tools_parts)
endif()
