# Boards with 32-bit ARM (RV1103, RV1106).
set(CMAKE_SYSTEM_PROCESSOR armv7l)
set(RKNND_DEBIAN_ARCHITECTURE armhf)
set(RKNND_TRIPLET arm-linux-gnueabihf)
set(RKNND_QEMU arm)
include(${CMAKE_CURRENT_LIST_DIR}/board.cmake)
