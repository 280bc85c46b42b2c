pkg_check_modules(UV REQUIRED IMPORTED_TARGET libuv)
rknnd_test(test_channel SOURCES test_channel.c LIBS server_core PkgConfig::UV)
