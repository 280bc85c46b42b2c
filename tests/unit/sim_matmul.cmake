if(TARGET npu_sim)
  add_executable(test_sim_matmul test_sim_matmul.c ../conformance/matmul_plain.c sim_run.c)
  target_link_libraries(test_sim_matmul PRIVATE rknnd_options PkgConfig::CMOCKA npu_sim tensor base m)
  # The default, and CPUs whose 8-bit products are inexact, or exact in another way.
  foreach(isa ALL AVX2 AVX2_VNNI)
    add_test(NAME test_sim_matmul_${isa} COMMAND test_sim_matmul)
    set_tests_properties(test_sim_matmul_${isa} PROPERTIES TIMEOUT 120 LABELS unit
      ENVIRONMENT DNNL_MAX_CPU_ISA=${isa})
  endforeach()
endif()
