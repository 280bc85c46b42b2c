rknnd_test(test_usb_link SOURCES test_usb_link.c LIBS server_core PkgConfig::UV)
