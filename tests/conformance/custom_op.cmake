rknnd_conformance(custom_op SOURCES custom_ops.c LABELS tsan)
rknnd_conformance(custom_op_misuse SOURCES custom_ops.c rknnd_says.c LABELS tsan)
rknnd_conformance(custom_op_threads SOURCES custom_ops.c LABELS tsan)

# Sanitizers and the compilers that OpenCL drivers bring along do not agree.
find_library(OPENCL_LIBRARY OpenCL)
if(OPENCL_LIBRARY AND NOT RKNND_SANITIZE)
  rknnd_conformance(custom_op_opencl LIBS ${OPENCL_LIBRARY})
endif()
