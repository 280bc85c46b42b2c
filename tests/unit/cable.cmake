rknnd_test(test_cable SOURCES test_cable.c LIBS server_core PkgConfig::UV)
