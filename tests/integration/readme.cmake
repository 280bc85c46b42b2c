if(TARGET rknnd AND TARGET rknnctl AND TARGET npu_sim)
  rknnd_python_test(test_readme test_readme.py release-only)
endif()
