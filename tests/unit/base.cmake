foreach(module error list tensor fd stream tcp log log_ring convert transpose uri sha256)
  rknnd_test(test_base_${module} SOURCES test_base_${module}.c LIBS tensor base m)
endforeach()
