if(TARGET npu_sim)
  add_library(sim_support STATIC sim_support.c)
  target_link_libraries(sim_support PRIVATE rknnd_options tensor base m)
  target_compile_definitions(sim_support PRIVATE PROJECT_ROOT="${PROJECT_SOURCE_DIR}")

  rknnd_test(test_sim_models SOURCES test_sim_models.c LIBS sim_support npu_sim tensor base m)
  rknnd_test(test_rknn_damage SOURCES test_rknn_damage.c LIBS sim_support npu_sim tensor base)
  target_compile_definitions(test_rknn_damage PRIVATE PROJECT_ROOT="${PROJECT_SOURCE_DIR}")
  rknnd_test(test_rknn_parts SOURCES test_rknn_parts.c LIBS sim_support npu_sim tensor base PkgConfig::JANSSON m)
  target_compile_definitions(test_rknn_parts PRIVATE PROJECT_ROOT="${PROJECT_SOURCE_DIR}")

  rknnd_test(test_sim_conv SOURCES test_sim_conv.c LIBS npu_sim tensor base m)
  rknnd_test(test_sim_bytes SOURCES test_sim_bytes.c LIBS npu_sim tensor base m)
  rknnd_test(test_sim_halves SOURCES test_sim_halves.c LIBS npu_sim tensor base m)

  # oneDNN multiplies 8-bit integers exactly only on CPUs with instructions for it; elsewhere our own
  # kernels do.
  add_test(NAME test_sim_models_avx2 COMMAND test_sim_models)
  set_tests_properties(test_sim_models_avx2 PROPERTIES TIMEOUT 240 SKIP_RETURN_CODE 77
    LABELS unit ENVIRONMENT DNNL_MAX_CPU_ISA=AVX2)
  foreach(isa SSE41 AVX2 AVX2_VNNI AVX512_CORE)
    add_test(NAME test_sim_conv_${isa} COMMAND test_sim_conv)
    set_tests_properties(test_sim_conv_${isa} PROPERTIES
      LABELS unit ENVIRONMENT DNNL_MAX_CPU_ISA=${isa})
  endforeach()
endif()
