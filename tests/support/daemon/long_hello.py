"""ClientHellos of TLS 1.3 that offer as much as one has room for, which nobody's library would say."""
import secrets
import struct

SUPPORTED_GROUPS, SIGNATURE_ALGORITHMS, PRE_SHARED_KEY, SUPPORTED_VERSIONS, PSK_MODES, KEY_SHARE = 10, 13, 41, 43, 45, 51
X25519 = b"\0\x1d"
UNKNOWN, OTHER = b"\x4a\x4a", b"\x7a\x7a"  # groups
MANY_GROUPS, MANY_SHARES, MANY_IDENTITIES = 16300, 6500, 9000  # of 64 KiB


def sized(data):
    return struct.pack(">H", len(data)) + data


def extension(kind, data):
    return struct.pack(">H", kind) + sized(data)


def long_hello(groups=X25519, shares=None, identities=()):
    shares = X25519 + sized(secrets.token_bytes(32)) if shares is None else shares
    offered = (extension(SUPPORTED_VERSIONS, b"\x02\x03\x04") + extension(KEY_SHARE, sized(shares)) +
               extension(SUPPORTED_GROUPS, sized(groups)) + extension(SIGNATURE_ALGORITHMS, sized(b"\x08\x04\x04\x03")) +
               extension(PSK_MODES, b"\x01\x01"))
    if identities:
        offered += extension(PRE_SHARED_KEY, sized(b"".join(sized(i) + bytes(4) for i in identities)) +
                             sized(b"\x20" + bytes(32)))
    body = b"\x03\x03" + secrets.token_bytes(32) + b"\0" + sized(b"\x13\x01") + b"\x01\0" + sized(offered)
    message = b"\x01" + struct.pack(">I", len(body))[1:] + body
    return b"".join(b"\x16\x03\x03" + sized(message[at:at + 16384]) for at in range(0, len(message), 16384))


def many_shares():
    """Each of them is looked for among all groups."""
    return long_hello(OTHER * MANY_GROUPS + UNKNOWN, (UNKNOWN + b"\0\x01x") * MANY_SHARES)


def many_identities():
    return long_hello(identities=[b"x"] * MANY_IDENTITIES)
