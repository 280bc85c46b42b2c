"""A server's door that speaks TLS: certificates for both ends, and for one whom nobody knows."""
import ssl
import subprocess

from support.service import free_port

LONG = 12  # certificates in the stranger's chain


def openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


class Door:
    def __init__(self, folder):
        self.folder = folder
        self.port = free_port()
        for name, issuer in ("ca", None), ("other", None), ("server", "ca"), ("client", "ca"), ("stranger", "other"):
            self.make(name, issuer)
        chain = (folder / "stranger.pem").read_text() + (folder / "other.pem").read_text() * LONG
        (folder / "stranger.pem").write_text(chain)
        self.options = ("--listen", f"tls:127.0.0.1:{self.port}", "--tls-cert", folder / "server.pem", "--tls-key", folder / "server.key",
                        "--tls-ca", folder / "ca.pem")

    def make(self, name, issuer):
        openssl(self.folder, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-subj", f"/CN={name}",
                *(("-out", f"{name}.csr") if issuer else ("-x509", "-out", f"{name}.pem")))
        if issuer:
            openssl(self.folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{issuer}.pem", "-CAkey", f"{issuer}.key", "-CAcreateserial",
                    "-out", f"{name}.pem")
        (self.folder / f"{name}.key").chmod(0o644 if name in ("client", "stranger") else 0o600)

    def context(self, strange=False):
        """Of a client, whom the server knows, or not."""
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
        who = "stranger" if strange else "client"
        c.load_cert_chain(self.folder / f"{who}.pem", self.folder / f"{who}.key")
        return c
