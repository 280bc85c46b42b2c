foreach(part golden frame message tensor)
  rknnd_test(test_protocol_${part} SOURCES test_protocol_${part}.c LIBS protocol tensor base)
endforeach()
target_compile_definitions(test_protocol_golden PRIVATE
  GOLDEN_FRAMES="${CMAKE_CURRENT_SOURCE_DIR}/golden/frames.txt")
