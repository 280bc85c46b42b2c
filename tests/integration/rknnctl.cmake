if(TARGET rknnd AND TARGET rknnctl)
  rknnd_python_test(test_rknnctl test_rknnctl.py)
endif()
