# Through the vendor's runtime.
foreach(name common benchmark multiple_input queries async cores threads zero_copy memory)
  rknnd_conformance_standin(${name} today)
endforeach()
foreach(name common benchmark multiple_input queries)
  rknnd_conformance_standin(${name} old)
endforeach()
rknnd_conformance_standin(single_core today --chip rk3568)
rknnd_conformance_standin(small_chip small --chip rv1106)
