# Boards with 64-bit ARM.
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(RKNND_DEBIAN_ARCHITECTURE arm64)
set(RKNND_TRIPLET aarch64-linux-gnu)
set(RKNND_QEMU aarch64)
include(${CMAKE_CURRENT_LIST_DIR}/board.cmake)
