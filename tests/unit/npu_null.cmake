# Modules that the loader has to refuse: npu-stale_KIND.so.
set(stale_modules)
function(stale_module kind)
  add_library(npu_stale_${kind} MODULE npu_stale.c)
  target_link_libraries(npu_stale_${kind} PRIVATE rknnd_options)
  target_compile_definitions(npu_stale_${kind} PRIVATE ${ARGN})
  set_target_properties(npu_stale_${kind} PROPERTIES PREFIX "" OUTPUT_NAME npu-stale_${kind})
  set(stale_modules ${stale_modules} npu_stale_${kind} PARENT_SCOPE)
endfunction()
stale_module(unversioned)
stale_module(old STALE_VERSION=0 STALE_SIZE=32 STALE_JOB=0)
stale_module(new STALE_VERSION=99 STALE_SIZE=0 STALE_JOB=0)
stale_module(table STALE_VERSION=NPU_API_VERSION STALE_SIZE=8 STALE_JOB=0)
stale_module(job STALE_VERSION=NPU_API_VERSION STALE_SIZE=0 STALE_JOB=8)

rknnd_test(test_npu_null SOURCES test_npu_null.c LIBS npu_module tensor base)
target_compile_definitions(test_npu_null PRIVATE
  MODULE_DIR="${RKNND_MODULE_DIR}" STALE_DIR="$<TARGET_FILE_DIR:npu_stale_old>")
add_dependencies(test_npu_null npu_null_module ${stale_modules})
