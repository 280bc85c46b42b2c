rknnd_test(test_abi SOURCES test_abi.c)
target_include_directories(test_abi PRIVATE ${PROJECT_SOURCE_DIR}/client/include)
rknnd_python_test(test_abi_reference test_abi.py)
rknnd_python_test(test_symbols test_symbols.py)
