"""What Windows asks a device that it does not know, and reads out of the answers: Microsoft OS descriptors 1.0."""
import ctypes
import fcntl
import struct

CONTROL = 0xC0185500  # USBDEVFS_CONTROL
STRING, COMPATIBLE, PROPERTIES = 0x03EE, 4, 5  # wValue, wIndex, wIndex
FROM_DEVICE, VENDOR_DEVICE, VENDOR_INTERFACE = 0x80, 0xC0, 0xC1
GET_DESCRIPTOR = 6


class Transfer(ctypes.Structure):
    _fields_ = [("type", ctypes.c_uint8), ("request", ctypes.c_uint8), ("value", ctypes.c_uint16), ("index", ctypes.c_uint16),
                ("length", ctypes.c_uint16), ("timeout_ms", ctypes.c_uint32), ("data", ctypes.c_void_p)]


def ask(node, kind, request, value, index, size):
    answer = ctypes.create_string_buffer(size)
    n = fcntl.ioctl(node, CONTROL, Transfer(kind, request, value, index, size, 5000, ctypes.addressof(answer)))
    return answer.raw[:n]


def text(utf16):
    return utf16.decode("utf-16-le").rstrip("\0")


class Device:
    """`node` is open for reading and writing."""

    def __init__(self, node):
        self.node = node
        string = ask(node, FROM_DEVICE, GET_DESCRIPTOR, STRING, 0, 18)
        assert len(string) == 18 and string[:16] == b"\x12\x03" + "MSFT100".encode("utf-16-le"), string
        self.vendor_code = string[16]

    def feature(self, kind, interface, index, header):
        """The whole of a feature descriptor, whose first bytes say how long it is."""
        head = ask(self.node, kind, self.vendor_code, interface, index, header)
        size, = struct.unpack_from("<I", head)
        whole = ask(self.node, kind, self.vendor_code, interface, index, size)
        length, version, what = struct.unpack_from("<IHH", whole)
        assert (length, version, what) == (len(whole), 0x0100, index), whole
        return whole

    def compatible(self):
        """The compatible ID of each interface; that of some is empty."""
        whole = self.feature(VENDOR_DEVICE, 0, COMPATIBLE, 16)
        assert len(whole) == 16 + 24 * whole[8], whole
        return {whole[at]: whole[at + 2:at + 10].rstrip(b"\0").decode() for at in range(16, len(whole), 24)}

    def properties(self, interface):
        """Name to (type, value); type 1 is a text."""
        whole = self.feature(VENDOR_INTERFACE, interface, PROPERTIES, 10)
        found, at = {}, 10
        for _ in range(struct.unpack_from("<H", whole, 8)[0]):
            size, kind, n_name = struct.unpack_from("<IIH", whole, at)
            n_data, = struct.unpack_from("<I", whole, at + 10 + n_name)
            assert size == 14 + n_name + n_data, whole
            found[text(whole[at + 10:at + 10 + n_name])] = kind, text(whole[at + 14 + n_name:at + size])
            at += size
        assert at == len(whole), whole
        return found
