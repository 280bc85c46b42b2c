if(TARGET rknnd AND TARGET rknnctl AND TARGET standin_today)
  rknnd_python_test(test_vendor test_vendor.py)
  set_tests_properties(test_vendor PROPERTIES FIXTURES_REQUIRED conformance_models)
endif()
