rknnd_test(test_wire_mux SOURCES test_wire_mux.c LIBS server_core PkgConfig::UV)
