rknnd_test(test_transport_mux SOURCES test_transport_mux.c LIBS server_core PkgConfig::UV)
