// The descriptors that FunctionFS takes on ep0 (linux/usb/functionfs.h, USB 2.0 chapter 9,
// Microsoft OS 1.0 descriptors): constants in wire format, little-endian.
//
//     head | counts | full speed | high speed | super speed | OS: WINUSB | OS: interface GUID
//
// Every speed has one interface with two bulk endpoints; they differ in the packet size (64, 512,
// 1024 bytes), and super speed adds a companion descriptor to each endpoint.
#include "server/usb/usb_descriptors.h"

#include <errno.h>
#include <linux/usb/functionfs.h>
#include <unistd.h>

#include "base/net/usb.h"

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define LE16(x) (x)
#define LE32(x) (x)
#else
#define LE16(x) __builtin_bswap16(x)
#define LE32(x) __builtin_bswap32(x)
#endif

// Programs on Windows find the interface by this GUID.
#define GUID_NAME "DeviceInterfaceGUID"
#define GUID      "{5A2E7C4B-90D3-4B55-8E57-1C7F0B6D93A1}"

#define INTERFACE                                                                                  \
    {                                                                                              \
        .bLength = USB_DT_INTERFACE_SIZE, .bDescriptorType = USB_DT_INTERFACE, .bNumEndpoints = 2, \
        .bInterfaceClass = USB_CLASS, .bInterfaceSubClass = USB_SUBCLASS,                          \
        .bInterfaceProtocol = USB_PROTOCOL, .iInterface = 1,                                       \
    }

#define ENDPOINT(address, packet)                                                                  \
    {                                                                                              \
        .bLength = USB_DT_ENDPOINT_SIZE, .bDescriptorType = USB_DT_ENDPOINT,                       \
        .bEndpointAddress = (address), .bmAttributes = USB_ENDPOINT_XFER_BULK,                     \
        .wMaxPacketSize = LE16(packet),                                                            \
    }

#define COMPANION                                                                                  \
    {                                                                                              \
        .bLength = USB_DT_SS_EP_COMP_SIZE, .bDescriptorType = USB_DT_SS_ENDPOINT_COMP,             \
        .bMaxBurst = 15,                                                                           \
    }

#define IN  (1 | USB_DIR_IN)
#define OUT (2 | USB_DIR_OUT)

struct bulk {
    struct usb_interface_descriptor interface;
    struct usb_endpoint_descriptor_no_audio in, out;
} __attribute__((packed));

struct bulk_super {
    struct usb_interface_descriptor interface;
    struct usb_endpoint_descriptor_no_audio in;
    struct usb_ss_ep_comp_descriptor in_companion;
    struct usb_endpoint_descriptor_no_audio out;
    struct usb_ss_ep_comp_descriptor out_companion;
} __attribute__((packed));

// One property of the interface, for Windows' registry; FunctionFS makes it UTF-16.
struct guid_property {
    struct usb_ext_prop_desc head;
    char name[sizeof GUID_NAME];
    __le32 data_length;
    char data[sizeof GUID];
} __attribute__((packed));

struct os_compatible {
    struct usb_os_desc_header head;
    struct usb_ext_compat_desc compatible;
} __attribute__((packed));

struct os_properties {
    struct usb_os_desc_header head;
    struct guid_property guid;
} __attribute__((packed));

struct descriptors {
    struct usb_functionfs_descs_head_v2 head;
    __le32 n_full, n_high, n_super, n_os;
    struct bulk full, high;
    struct bulk_super super;
    struct os_compatible compatible;
    struct os_properties properties;
} __attribute__((packed));

#define DESCRIPTORS(os_version)                                                                    \
    {                                                                                              \
        .head = {.magic = LE32(FUNCTIONFS_DESCRIPTORS_MAGIC_V2),                                   \
                 .length = LE32(sizeof(struct descriptors)),                                       \
                 .flags = LE32(FUNCTIONFS_HAS_FS_DESC | FUNCTIONFS_HAS_HS_DESC |                   \
                               FUNCTIONFS_HAS_SS_DESC | FUNCTIONFS_HAS_MS_OS_DESC)},               \
        .n_full = LE32(3), .n_high = LE32(3), .n_super = LE32(5), .n_os = LE32(2),                 \
        .full = {INTERFACE, ENDPOINT(IN, 64), ENDPOINT(OUT, 64)},                                  \
        .high = {INTERFACE, ENDPOINT(IN, 512), ENDPOINT(OUT, 512)},                                \
        .super = {INTERFACE, ENDPOINT(IN, 1024), COMPANION, ENDPOINT(OUT, 1024), COMPANION},       \
        .compatible = {.head = {.dwLength = LE32(sizeof(struct os_compatible)),                    \
                                .bcdVersion = LE16(os_version),                                    \
                                .wIndex = LE16(4),                                                 \
                                .bCount = 1},                                                      \
                       .compatible = {.Reserved1 = 1, .CompatibleID = "WINUSB"}},                  \
        .properties = {.head = {.dwLength = LE32(sizeof(struct os_properties)),                    \
                                .bcdVersion = LE16(os_version),                                    \
                                .wIndex = LE16(5),                                                 \
                                .wCount = LE16(1)},                                                \
                       .guid = {.head = {.dwSize = LE32(sizeof(struct guid_property)),             \
                                         .dwPropertyDataType = LE32(1),                            \
                                         .wPropertyNameLength = LE16(sizeof GUID_NAME)},           \
                                .name = GUID_NAME,                                                 \
                                .data_length = LE32(sizeof GUID),                                  \
                                .data = GUID}},                                                    \
    }

// bcdVersion of the Microsoft descriptors is 1.00; `older` has its bytes swapped, see below.
static const struct descriptors current = DESCRIPTORS(0x0100), older = DESCRIPTORS(0x0001);

static const struct {
    struct usb_functionfs_strings_head head;
    __le16 language;
    char name[sizeof USB_NAME];
} __attribute__((packed)) strings = {
    .head = {.magic = LE32(FUNCTIONFS_STRINGS_MAGIC),
             .length = LE32(sizeof strings),
             .str_count = LE32(1),
             .lang_count = LE32(1)},
    .language = LE16(0x409),
    .name = USB_NAME,
};

static int descriptors_give(int ep0, const void *data, size_t size)
{
    return write(ep0, data, size) < 0 ? -errno : 0;
}

// Kernels before 6.6 expected the bytes of bcdVersion swapped (0x0001) and refuse the right value
// with EINVAL; later ones take it. So the right form is tried first.
int usb_descriptors_give(int ep0, struct error *e)
{
    int r = descriptors_give(ep0, &current, sizeof current);
    if (r == -EINVAL)
        r = descriptors_give(ep0, &older, sizeof older);
    if (r < 0)
        return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, -r, "the USB descriptors");
    r = descriptors_give(ep0, &strings, sizeof strings);
    if (r < 0)
        return error_set_errno(e, STATUS_DEVICE_UNAVAILABLE, -r, "the USB strings");
    return 0;
}
