# The general flow: what every program of the SDK's kind does.
foreach(name common benchmark multiple_input queries async cores)
  rknnd_conformance(${name})
endforeach()
rknnd_conformance(single_core OPTIONS --chip rk3568)
rknnd_conformance(dynamic_shape SOURCES rknnd_rows.c)
rknnd_conformance(dynamic_zero_copy SOURCES rknnd_rows.c)
rknnd_conformance(misuse SOURCES rknnd_words.c)
rknnd_conformance(threads LABELS tsan)
