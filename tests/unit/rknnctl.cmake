# The parts of rknnctl that need no server.
if(TARGET tools_parts)
  rknnd_test(test_rknnctl_options SOURCES test_rknnctl_options.c LIBS tools_parts)
  rknnd_test(test_rknnctl_inputs SOURCES test_rknnctl_inputs.c LIBS tools_parts)
  rknnd_test(test_rknnctl_timeline SOURCES test_rknnctl_timeline.c LIBS tools_parts)
  rknnd_test(test_rknnctl_text SOURCES test_rknnctl_text.c LIBS tools_parts)
endif()
