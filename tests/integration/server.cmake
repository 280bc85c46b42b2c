# A real server inside the test, spoken to by hand.
add_library(test_peer STATIC peer.c in_process.c)
target_link_libraries(test_peer PRIVATE rknnd_options PUBLIC server_core PkgConfig::CMOCKA)
target_compile_definitions(test_peer PRIVATE MODULE_DIR="${RKNND_MODULE_DIR}")

foreach(part hello upload infer dump stops users death log memory silence)
  rknnd_test(test_server_${part} SOURCES test_server_${part}.c LIBS test_peer LABELS tsan)
  add_dependencies(test_server_${part} npu_null_module)
endforeach()

if(TARGET npu_sim)
  rknnd_test(test_server_flood SOURCES test_server_flood.c LIBS test_peer LABELS tsan)
  target_compile_definitions(test_server_flood
    PRIVATE DIGITS_FILE="${PROJECT_SOURCE_DIR}/examples/digits/digits.rknn"
            MODULE_DIR="${RKNND_MODULE_DIR}")
  add_dependencies(test_server_flood npu_null_module npu_sim_module)
endif()

# The program itself.
rknnd_test(test_server_program SOURCES test_server_program.c daemon.c LIBS test_peer LABELS tsan)
target_compile_definitions(test_server_program PRIVATE RKNND_PROGRAM="$<TARGET_FILE:rknnd>")
add_dependencies(test_server_program rknnd npu_null_module)
