# Through the vendor's runtime.
foreach(name common benchmark multiple_input queries async cores threads zero_copy memory
    matmul matmul_dynamic matmul_memory matmul_misuse)
  rknnd_conformance_standin(${name} today rk3588)
endforeach()
set_property(TEST conformance_threads_standin_today_rk3588 APPEND PROPERTY LABELS tsan)
foreach(name common multiple_input queries)
  rknnd_conformance_standin(${name} old rk3588)
endforeach()
foreach(chip rk3562 rk3576)
  rknnd_conformance_standin(matmul today ${chip})
endforeach()
rknnd_conformance_standin(single_core today rk3568)
rknnd_conformance_standin(small_chip small rv1106)

# Files of dynamic shapes as the stand-in takes them.
foreach(name dynamic_shape dynamic_zero_copy)
  add_executable(standin_${name} ${name}.c standin_rows.c)
  target_link_libraries(standin_${name} PRIVATE rknnd_options conformance rknnrt m)
  rknnd_conformance_standin(standin_${name} today rk3588)
endforeach()
