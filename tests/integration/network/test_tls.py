#!/usr/bin/python3
"""TLS between programs and a daemon: keys and certificates, who is whom, what is refused in which words, and peers that
mean harm. `openssl s_client` is the reading of TLS that is not ours."""
import os
import pathlib
import re
import secrets
import select
import socket
import subprocess
import sys
import tempfile
import unittest

from support import wire
from support.checks.expect import EXPECT
from support.daemon.long_hello import MANY_GROUPS, MANY_SHARES, OTHER as OTHER_GROUP, X25519, long_hello, many_identities, many_shares
from support.daemon.revoked import make_crl
from support.service import BUILD, PATIENCE, PORTS, SANITIZED, Configured, Daemon, make_keys, resident_kb, rknnctl, wait_for

KEY = secrets.token_hex(32)
OTHER = secrets.token_hex(32)


def port_of(daemon):
    return int(daemon.uri.rsplit(":", 1)[1])


def run(*words, env=None, **options):
    return subprocess.run([str(w) for w in words], env=env, capture_output=True, timeout=PATIENCE, check=False, **options)


def openssl(*words):
    done = run("openssl", *words)
    EXPECT.assertEqual(done.returncode, 0, done.stderr)


class Peer:
    """openssl s_client, which speaks for us: bytes in, bytes out."""

    def __init__(self, daemon, *words):
        self.process = subprocess.Popen(
            ["openssl", "s_client", "-quiet", "-no_ign_eof", "-nocommands", "-connect", f"127.0.0.1:{port_of(daemon)}", *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def hello(self):
        """HELLO, and what answers: the fields of its reply."""
        body = wire.message(f1=1, f2=1, f3=1, f4=b"openssl")
        self.process.stdin.write(wire.HEAD.pack(wire.MAGIC, wire.HELLO, 0, 0, 1, len(body), 0) + body)
        self.process.stdin.flush()
        head = self.process.stdout.read(wire.HEAD.size)
        assert len(head) == wire.HEAD.size, self.process.stderr.read()
        _, kind, flags, _, number, size, _ = wire.HEAD.unpack(head)
        EXPECT.assertEqual((kind, flags, number), (wire.HELLO, wire.REPLY, 1))
        return wire.fields_of(self.process.stdout.read(size))

    def close(self):
        """Its words."""
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        words = self.process.stderr.read().decode()
        self.process.stdout.close()
        self.process.stderr.close()
        return words


class Base(unittest.TestCase):
    OPTIONS = ()

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rknnd-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = open(self.folder / "log", "w+", encoding="utf-8")
        self.addCleanup(self.log.close)

    def start(self, *options):
        daemon = Daemon("--backend", "null:64:64", *self.OPTIONS, *options, transport="tls", stderr=self.log)
        self.addCleanup(daemon.stop)
        return daemon

    def said(self):
        return (self.folder / "log").read_text()

    def ask(self, daemon, *words, **env):
        """rknnctl with other settings: its exit code and words."""
        done = run(BUILD / "bin/rknnctl", *words, env={**daemon.env, **{k: str(v) for k, v in env.items()}}, text=True)
        return done.returncode, done.stdout + done.stderr

    def refused(self, daemon, words, **env):
        code, said = self.ask(daemon, "ping", "-n", "1", **env)
        self.assertEqual(code != 0, True, said)
        self.assertIn(words, said)


class Keys(Base):
    def setUp(self):
        super().setUp()
        self.keys = make_keys(self.folder / "keys", alice=KEY, bob=OTHER)
        os.environ["RKNND_TLS_PSK_FILE"] = str(self.keys)  # for Daemon, which asks it when it is there
        self.addCleanup(os.environ.pop, "RKNND_TLS_PSK_FILE")

    def start(self, *options):
        return super().start("--tls-psk-file", str(self.keys), *options)

    def test_another_reading_of_tls_agrees(self):
        daemon = self.start("--rights", "tls/alice:run,see-own,see-all")
        peer = Peer(daemon, "-tls1_3", "-psk_identity", "bob", "-psk", OTHER)
        self.assertIn(b"rknnd", b" ".join(v for values in peer.hello().values() for v in values if isinstance(v, bytes)))
        self.assertRegex(daemon.rknnctl("status", "--limits").stdout, r"tls/bob +connections +1")
        peer.close()

    def test_changes_of_keys_without_end_are_refused(self):
        """A change costs its sender next to nothing. A few are everybody's right."""
        daemon = self.start()
        client = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{port_of(daemon)}", "-tls1_3",
                                   "-psk_identity", "bob", "-psk", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
        self.addCleanup(client.communicate)
        self.addCleanup(client.kill)
        said = b""
        os.set_blocking(client.stdout.fileno(), False)
        done = 0

        def changed():
            nonlocal said
            said += client.stdout.read() or b""
            return said.count(b"KEYUPDATE") > done or client.poll() is not None
        while client.poll() is None and done < 100:
            try:
                client.stdin.write(b"K\n")
                client.stdin.flush()
            except BrokenPipeError:
                break
            wait_for(f"change {done} in {said}", changed)
            done += 1
        self.assertIn(done, range(16, 100), said)  # slow clients have more, since the right comes back with time
        self.assertEqual(daemon.rknnctl("ping", "-n", "1").returncode, 0)

    def test_no_tickets_and_no_early_data(self):
        daemon = self.start()
        done = run("openssl", "s_client", "-connect", f"127.0.0.1:{port_of(daemon)}", "-tls1_3", "-psk_identity", "bob",
                   "-psk", OTHER, "-msg", stdin=subprocess.DEVNULL)
        said = done.stdout.decode()
        self.assertIn("Finished", said)
        self.assertNotIn("NewSessionTicket", said)
        self.assertIn("Early data was not sent", said)

    def test_refusals_say_why(self):
        daemon = self.start()
        wrong = make_keys(self.folder / "wrong", alice=OTHER)
        unknown = make_keys(self.folder / "unknown", carol=KEY)
        readable = make_keys(self.folder / "readable", alice=KEY)
        readable.chmod(0o644)
        nothing = {"RKNND_TLS_PSK_FILE": "", "XDG_CONFIG_HOME": str(self.folder)}
        self.refused(daemon, "the server has another key for this identity", RKNND_TLS_PSK_FILE=wrong)
        self.refused(daemon, "does not know the identity", RKNND_TLS_PSK_FILE=unknown)
        self.refused(daemon, "chmod 600", RKNND_TLS_PSK_FILE=readable)
        self.refused(daemon, "no key for this server and identity dave", RKNND_TLS_PSK_IDENTITY="dave")
        self.refused(daemon, "there is no key for TLS: rknnctl pair HOST makes one", **nothing)
        self.refused(daemon, "this port speaks TLS", RKNND_SERVER="tcp" + daemon.uri[3:])
        for name in ("wrong", "unknown"):
            code, said = self.ask(daemon, "doctor", RKNND_TLS_PSK_FILE=self.folder / name)
            self.assertEqual(code, 1)
            self.assertRegex(said, r"FAIL  TLS +no TLS: the server")
        code, said = self.ask(daemon, "doctor")
        self.assertRegex(said, r"ok    TLS +version 1.3, TLS_")
        wait_for("the log's word of it", lambda: "is refused by TLS" in self.said())

    def test_a_tls_client_at_a_plain_port(self):
        daemon = self.start()
        plain = Daemon("--backend", "null:64:64", transport="tcp")
        self.addCleanup(plain.stop)
        self.refused(daemon, "is it the port of a tcp: server?", RKNND_SERVER="tls" + plain.uri[3:])

    def test_the_users_own_file_is_found(self):
        daemon = self.start()
        (self.folder / "rknnd").mkdir()
        make_keys(self.folder / "rknnd/tls.psk", bob=OTHER)
        code, said = self.ask(daemon, "ping", "-n", "1", RKNND_TLS_PSK_FILE="", XDG_CONFIG_HOME=self.folder)
        self.assertEqual(code, 0, said)

    def test_an_identity_is_a_user(self):
        bob = make_keys(self.folder / "bob", bob=OTHER)
        daemon = self.start("--quota", "tls/alice:contexts=1", "--rights", "tls/bob:run,see-own,see-all")
        code, said = self.ask(daemon, "log", RKNND_TLS_PSK_FILE=bob)
        self.assertEqual(code, 0, said)
        code, said = self.ask(daemon, "log")
        self.assertIn('lacks the right "see-all"', said)
        code, said = self.ask(daemon, "status", "--limits", RKNND_TLS_PSK_FILE=bob)
        self.assertRegex(said, r"tls/bob +connections +1")
        code, said = self.ask(daemon, "status", "--limits")
        self.assertRegex(said, r"tls/alice +contexts +0 +1 +quota")
        self.assertNotIn("tls/bob", said)

    def test_rights_and_quotas_of_all_identities(self):
        daemon = self.start("--quota", "tls:contexts=2", "--quota", "*:contexts=7", "--rights", "tls:run,see-own,see-all")
        code, said = self.ask(daemon, "status", "--limits")
        self.assertRegex(said, r"tls/alice +contexts +0 +2 +quota")
        code, said = self.ask(daemon, "log")
        self.assertEqual(code, 0, said)

    def between(self, daemon, **what):
        """What rknnctl ping says when somebody stands between it and the server, and does this to its second connection:
        the first one asks who is there."""
        with socket.create_server(("127.0.0.1", 0)) as door:
            door.settimeout(PATIENCE)
            uri = f"tls:127.0.0.1:{door.getsockname()[1]}"
            client = subprocess.Popen([BUILD / "bin/rknnctl", "ping", "-n", "1000000"],
                                      env={**daemon.env, "RKNND_SERVER": uri}, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True)
            for options in ({}, what):
                inside, _ = door.accept()
                with inside, socket.create_connection(("127.0.0.1", port_of(daemon))) as outside:
                    shuttle(inside, outside, **options)
                    inside.shutdown(socket.SHUT_WR)
                    while inside.recv(65536):  # closing with unread bytes would be more than a cut
                        pass
        return client.communicate(timeout=PATIENCE)[1]

    def test_a_cut_is_not_taken_for_an_end(self):
        daemon = self.start()
        self.assertIn("the connection was cut off", self.between(daemon, most=5000))
        wait_for("the server to notice", lambda: daemon.status()["sessions"] <= 1)

    def test_changed_bytes_end_the_connection(self):
        daemon = self.start()
        self.assertRegex(self.between(daemon, harm=5000), "the connection broke: .*(bad record mac|decryption failed)")


def shuttle(a, b, most=1 << 40, harm=None):
    """Passes bytes both ways, about `most`, or until one end closes; at `harm` one is changed."""
    passed = 0
    while passed < most:
        for source in select.select([a, b], [], [], PATIENCE)[0]:
            data = source.recv(65536)
            if not data:
                return passed
            if harm is not None and passed <= harm < passed + len(data):
                data = data[:-1] + bytes([data[-1] ^ 1])
            passed += len(data)
            try:
                (b if source is a else a).sendall(data)
            except OSError:
                return passed
    return passed


class Hostile(Base):
    OPTIONS = ("--heartbeat-ms", "200", "--peer-timeout-ms", "2000")

    def connect(self, daemon):
        s = socket.create_connection(("127.0.0.1", port_of(daemon)), PATIENCE)
        self.addCleanup(s.close)
        return s

    def sent(self, daemon, data):
        """A connection that has said this."""
        s = self.connect(daemon)
        s.sendall(data)
        return s

    def ends(self, s):
        try:
            while s.recv(4096):
                pass
        except ConnectionError:
            pass

    def test_garbage_half_and_huge(self):
        daemon = self.start()
        before = daemon.held()
        hello = client_hello(daemon)
        record = b"\x16\x03\x03"
        handshake = b"\x01\x00\x40\x00\x03\x03"  # 16 KiB of a ClientHello follow, it says
        hostile = [
            b"", b"\x16", record, record + b"\xff\xff" + b"A" * 0xffff, record + b"\x40\x01" + b"A" * 0x4001,
            secrets.token_bytes(100000), b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-x\r\n", b"\0" * 5000,
            b"\x15\x03\x03\x00\x02\x02\x28", b"\x17\x03\x03\x00\x20" + b"A" * 32, b"\x14\x03\x03\x00\x01\x01" * 1000,
            hello[:-1], hello[:20], hello[:11] + secrets.token_bytes(32) + hello[43:-1] + b"\xff", hello + hello,
            record + b"\x00\x04\x01\xff\xff\xff", (record + b"\x00\x01\x01") * 200, (record + b"\x00\x00") * 200,
            record + b"\x3f\xff" + handshake + b"\0" * (0x3fff - len(handshake)),
        ]
        for data in hostile:
            self.sent(daemon, data)
        for data in hostile:  # and with an end
            s = self.sent(daemon, data)
            try:
                s.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the server was faster
            self.ends(s)
        self.assertEqual(daemon.rknnctl("ping", "-n", "1").returncode, 0)
        wait_for("all of them to be gone", lambda: daemon.held() == before)

    def test_the_end_waits_for_no_handshake(self):
        """Nor for who is refused and does not go, and who has said nothing."""
        daemon = self.start("--drain-timeout-ms", "3600000", "--heartbeat-ms", "600000", "--peer-timeout-ms", "3600000")
        hello = client_hello(daemon)
        for n in (0, 1, 9, len(hello) - 1, len(hello)):
            self.sent(daemon, hello[:n])
        self.sent(daemon, b"GET / HTTP/1.1\r\n\r\n")
        wait_for("all to be there", lambda: daemon.status()["connections"] > 6)
        daemon.process.terminate()
        self.assertEqual(daemon.process.wait(PATIENCE), 0)

    def test_half_open_flood(self):
        """Who says nothing takes a part of what there is, for a limited time, and a polite client does not notice."""
        daemon = self.start("--max-connections", "200")
        before = daemon.held()
        hello = client_hello(daemon)
        flood = [self.sent(daemon, hello[:n % len(hello)]) for n in range(400)]
        for _ in range(20):
            done = daemon.rknnctl("ping", "-n", "1")
            self.assertEqual(done.returncode, 0, done.stderr)
        for s in flood:
            self.ends(s)
        wait_for("all of them to be gone", lambda: daemon.held() == before)

    def test_hellos_without_a_key(self):
        """As many as there can be: each is refused, and the loop goes on."""
        daemon = self.start()
        hello = client_hello(daemon)
        for _ in range(20):
            flood = [self.sent(daemon, hello) for _ in range(50)]
            done = daemon.rknnctl("ping", "-n", "1")
            self.assertEqual(done.returncode, 0, done.stderr)
            for s in flood:
                s.shutdown(socket.SHUT_WR)
                self.ends(s)
        self.assertLess(self.said().count("is refused by TLS"), 500)

    def test_memory_of_a_crowd_goes_back(self):
        """What each has for what it reads and writes, however they come and go, and the holes that they leave between what lives on."""
        daemon = self.start()
        hello, pid = client_hello(daemon), daemon.process.pid
        held, before = daemon.held(), resident_kb(pid)
        for n in range(6):
            flood = [self.sent(daemon, hello[:len(hello) - i % 2] + bytes(5000) * (i % 3)) for i in range(150)]
            for s in flood[n % 2::2]:
                s.close()
            self.assertEqual(daemon.rknnctl("stats").returncode, 0)
            for s in flood:
                s.close()
            wait_for("all of them to be gone", lambda: daemon.held() == held)
        if not SANITIZED:
            wait_for(lambda: f"{resident_kb(pid)} kB to be {before} again, but for some", lambda: resident_kb(pid) - before < 6 << 10)

    def test_offers_without_end(self):
        """In one message, which OpenSSL takes a tenth of a second for: refused before that."""
        daemon = self.start()
        offers = [many_shares(), many_identities(), long_hello(groups=OTHER_GROUP * MANY_GROUPS), long_hello(shares=(X25519 + b"\0\x01x") * MANY_SHARES)]
        for n, offer in enumerate(offers):
            self.ends(self.sent(daemon, offer))
            self.assertEqual(daemon.rknnctl("ping", "-n", "1").returncode, 0)
            if n == 0:  # of the others' lines some are left out
                self.assertIn("the client offers more than any client can do", self.said())
        self.ends(self.sent(daemon, long_hello(identities=[b"x"] * 100)))
        self.assertEqual(daemon.rknnctl("ping", "-n", "1").returncode, 0)

    def test_older_versions(self):
        daemon = self.start()
        for version in ("-tls1_2", "-tls1_1"):
            peer = Peer(daemon, version, "-psk_identity", "alice", "-psk", KEY, "-cipher", "ALL@SECLEVEL=0")
            self.assertRegex(peer.close(), "alert protocol version|no protocols|no ciphers")
        peer = Peer(daemon, "-tls1_3")
        self.assertIn("handshake failure", peer.close())

    def test_key_changes_without_end(self):
        """s_client changes keys when it reads K; the other end answers each."""
        daemon = self.start()
        key = pathlib.Path(daemon.env["RKNND_TLS_PSK_FILE"]).read_text().strip().split(":")[1]
        peer = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{port_of(daemon)}", "-tls1_3",
                                 "-psk_identity", "alice", "-psk", key], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
        peer.stdin.write(b"K\n" * 200)
        peer.stdin.flush()
        done = daemon.rknnctl("ping", "-n", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        peer.kill()
        peer.wait(PATIENCE)
        peer.stdin.close()


def client_hello(daemon):
    """The first flight of s_client, without a key."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(PATIENCE)
        peer = subprocess.Popen(["openssl", "s_client", "-tls1_3", "-connect", "127.0.0.1:%u" % door.getsockname()[1]],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        s, _ = door.accept()
        with s:
            data = s.recv(65536)
    peer.wait(PATIENCE)
    return data


class Certificates(Base):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory(prefix="rknnd-test-")
        cls.addClassCleanup(cls.holder.cleanup)
        cls.pem = pathlib.Path(cls.holder.name)
        for ca in ("ca", "stranger"):
            openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                    f"/CN={ca}", "-keyout", cls.pem / f"{ca}.key", "-out", cls.pem / f"{ca}.crt")
        cls.issue("server", "/CN=board", "DNS:board,IP:127.0.0.1")
        cls.issue("elsewhere", "/CN=elsewhere", "DNS:elsewhere")
        cls.issue("old", "/CN=board", "IP:127.0.0.1", "-days", "-1")
        cls.issue("alice", "/CN=alice", "DNS:pc")
        cls.issue("dns", "/O=nobody", "DNS:camera.local,DNS:other")
        cls.issue("strange", "/CN=a b<c>", "DNS:fine")
        cls.issue("foreign", "/CN=alice", "DNS:pc", ca="stranger")

    @classmethod
    def issue(cls, name, subject, names, *words, ca="ca"):
        key, request, cert = (cls.pem / f"{name}.{end}" for end in ("key", "csr", "crt"))
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject, "-keyout", key,
                "-out", request)
        extensions = cls.pem / "extensions"
        extensions.write_text(f"subjectAltName={names}\n")
        openssl("x509", "-req", "-in", request, "-CA", cls.pem / f"{ca}.crt", "-CAkey", cls.pem / f"{ca}.key",
                "-CAcreateserial", "-extfile", extensions, "-out", cert, *(words or ("-days", "2")))

    def setting(self, name, ca="ca"):
        return {"RKNND_TLS_CERT": self.pem / f"{name}.crt", "RKNND_TLS_KEY": self.pem / f"{name}.key",
                "RKNND_TLS_CA": self.pem / f"{ca}.crt", "RKNND_TLS_PSK_FILE": "", "XDG_CONFIG_HOME": self.folder}

    def begin(self, *options, name="server", setting=None):
        values = self.setting("alice") if setting is None else setting
        for key, value in values.items():
            old = os.environ.get(key)
            os.environ[key] = str(value)
            self.addCleanup(lambda k=key, v=old: os.environ.pop(k) if v is None else os.environ.update({k: v}))
        return self.start("--tls-cert", str(self.pem / f"{name}.crt"), "--tls-key", str(self.pem / f"{name}.key"),
                          "--tls-ca", str(self.pem / "ca.crt"), *options)

    def test_files_that_everybody_may_write(self):
        for name in ("ca", "server"):
            file = self.pem / f"{name}.crt"
            self.addCleanup(file.chmod, 0o644)
            file.chmod(0o646)
            done = run(BUILD / "bin/rknnd", "--listen", "tls:127.0.0.1:0", "--tls-cert", self.pem / "server.crt", "--tls-key", self.pem / "server.key",
                       "--tls-ca", self.pem / "ca.crt", text=True)
            file.chmod(0o644)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"everybody may write to {file}", done.stderr)

    def test_names_are_users(self):
        daemon = self.begin("--rights", "tls/camera.local:run,see-own,see-all", "--quota", "tls/alice:contexts=3")
        self.assertRegex(self.ask(daemon, "status", "--limits")[1], r"tls/alice +contexts +0 +3 +quota")
        self.assertEqual(self.ask(daemon, "log", **self.setting("dns"))[0], 0)
        self.assertIn('lacks the right "see-all"', self.ask(daemon, "log")[1])

    def test_refusals_say_why(self):
        daemon = self.begin()
        no_cert = {**self.setting("alice"), "RKNND_TLS_CERT": "", "RKNND_TLS_KEY": ""}
        self.refused(daemon, "wants a certificate or a key", **no_cert)
        self.refused(daemon, "the server has no reason to trust our certificate", **self.setting("foreign"))
        self.refused(daemon, "the server's certificate does not count", **self.setting("alice", ca="stranger"))
        self.refused(daemon, "expired", **self.setting("old"))
        self.refused(daemon, "is not the certificate's key",
                     **{**self.setting("alice"), "RKNND_TLS_KEY": self.pem / "dns.key"})
        def refused_and_logged():  # the log has one such line a second
            code, said = self.ask(daemon, "ping", "-n", "1", **self.setting("strange"))
            self.assertNotEqual(code, 0, said)
            return "no name that could be an identity" in self.said()

        wait_for("the log's word of a name that is no identity", refused_and_logged)
        self.refused(daemon, "hostname mismatch", RKNND_SERVER="tls:localhost:%u" % port_of(daemon))

    def test_keys_beside_certificates(self):
        keys = make_keys(self.folder / "keys", bob=OTHER)
        daemon = self.begin("--tls-psk-file", str(keys), "--rights", "tls/bob:run,see-own,see-all")
        only_key = {"RKNND_TLS_PSK_FILE": keys, "RKNND_TLS_CERT": "", "RKNND_TLS_KEY": "", "RKNND_TLS_CA": ""}
        self.assertEqual(self.ask(daemon, "log", **only_key)[0], 0)
        self.assertIn('lacks the right "see-all"', self.ask(daemon, "log")[1])
        wrong = make_keys(self.folder / "wrong", carol=OTHER)
        self.refused(daemon, "does not know our key", **{**only_key, "RKNND_TLS_PSK_FILE": wrong})

    def crl(self, name, *revoked, ca="ca", **more):
        return make_crl(self.pem / f"{ca}.crt", self.pem / f"{ca}.key", self.folder / name, *(self.pem / f"{n}.crt" for n in revoked), **more)

    def test_revoked_certificates(self):
        daemon = self.begin("--tls-crl", str(self.crl("crl", "alice")), setting=self.setting("dns"))
        self.refused(daemon, "the server says that our certificate is revoked", **self.setting("alice"))
        wait_for("the log's word of it", lambda: "the list of revoked certificates has it" in self.said())

    def test_revoked_while_the_server_runs(self):
        """SIGHUP reads the list again: who is on it does not come back. Who is there stays, and can be ended."""
        crl, tls = self.crl("crl"), f"tls:127.0.0.1:{PORTS.next()}"
        lines = ["backend = null:64:64", "listen = unix:HERE/a", f"listen = {tls}", f"tls-cert = {self.pem}/server.crt",
                 f"tls-key = {self.pem}/server.key", f"tls-ca = {self.pem}/ca.crt", f"tls-crl = {crl}"]
        daemon = Configured(lines)
        self.addCleanup(daemon.stop)
        alice, dns = ({k: str(v) for k, v in self.setting(name).items()} for name in ("alice", "dns"))
        self.assertEqual(rknnctl(tls, "ping", "-n", "1", **alice).returncode, 0)
        self.crl("crl", "alice")
        self.assertIn("the configuration ", daemon.reload(lines))
        done = rknnctl(tls, "ping", "-n", "1", **alice)
        self.assertIn("revoked", done.stderr)
        self.assertEqual(rknnctl(tls, "ping", "-n", "1", **dns).returncode, 0)
        crl.write_text("nothing of the kind")
        self.assertIn("has no list of revoked certificates", daemon.reload(lines))
        self.assertIn("revoked", rknnctl(tls, "ping", "-n", "1", **alice).stderr)  # as before

    def test_lists_that_have_expired_refuse(self):
        old = self.crl("crl", words=("-crl_lastupdate", "20200101000000Z", "-crl_nextupdate", "20200102000000Z"))
        keys = make_keys(self.folder / "keys", alice=KEY)
        only_key = {**self.setting("alice"), "RKNND_TLS_CERT": "", "RKNND_TLS_KEY": "", "RKNND_TLS_CA": "", "RKNND_TLS_PSK_FILE": keys}
        daemon = self.begin("--tls-crl", str(old), "--tls-psk-file", str(keys), setting=only_key)
        self.assertIn("has a list that has expired", self.said())
        self.refused(daemon, "", **self.setting("alice"))
        wait_for("the log's word of it", lambda: "renew the list of revoked certificates" in self.said())

    def test_a_revoked_server(self):
        daemon = self.begin()
        self.refused(daemon, "the list of revoked certificates has it", RKNND_TLS_CRL=self.crl("crl", "server"))
        self.assertEqual(self.ask(daemon, "ping", "-n", "1", RKNND_TLS_CRL=self.crl("none"))[0], 0)
        self.refused(daemon, "revoked certificates without those that are trusted", RKNND_TLS_CRL=self.crl("none"), RKNND_TLS_CA="",
                     RKNND_TLS_CERT="", RKNND_TLS_KEY="", RKNND_TLS_PSK_FILE=make_keys(self.folder / "keys", alice=KEY))

    def test_lists_that_a_server_does_not_start_with(self):
        forged = self.folder / "forged.crt"
        openssl("req", "-x509", "-key", self.pem / "stranger.key", "-days", "2", "-subj", "/CN=ca", "-out", forged)
        make_crl(forged, self.pem / "stranger.key", self.folder / "forged")
        large, pipe = self.folder / "large", self.folder / "pipe"
        large.write_bytes(b"\n" * ((1 << 20) + 1))
        os.mkfifo(pipe)
        for words, path in (("has no list that /CN=ca has signed", self.crl("other", ca="stranger")),
                            ("has no list that /CN=ca has signed", self.folder / "forged"),
                            ("has no list of revoked certificates", self.pem / "ca.crt"), ("no file of lists", large), ("no file of lists", pipe),
                            ("No such file", self.folder / "none")):
            with self.subTest(words):
                done = run(BUILD / "bin/rknnd", "--listen", "tls:127.0.0.1:0", "--tls-cert", self.pem / "server.crt", "--tls-key",
                           self.pem / "server.key", "--tls-ca", self.pem / "ca.crt", "--tls-crl", path, text=True)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stderr)

    def chain(self, curve, encoding, n):
        """A file of n certificates of a stranger's."""
        key, one, path = (self.folder / name for name in ("curve.key", "one.crt", f"{curve}.{encoding}.{n}"))
        openssl("ecparam", "-name", curve, "-param_enc", encoding, "-genkey", "-noout", "-out", key)
        openssl("req", "-x509", "-key", key, "-subj", "/CN=x", "-days", "2", "-out", one)
        path.write_text(one.read_text() * n)
        return path

    def send_chain(self, daemon, path):
        return run("openssl", "s_client", "-tls1_3", "-connect", f"127.0.0.1:{port_of(daemon)}", "-cert", self.pem / "alice.crt", "-key",
                   self.pem / "alice.key", "-cert_chain", path, stdin=subprocess.DEVNULL)

    def test_certificates_that_take_long_are_not_read(self):
        """A curve that a stranger has made takes a tenth of a second for each of his certificates, of which there can be many."""
        daemon = self.begin()
        for words, chain in (("a certificate has a key with a curve of its own", self.chain("prime256v1", "explicit", 1)),
                             ("curve of its own", self.chain("sect233k1", "explicit", 3)),
                             ("there are more than 8 certificates", self.chain("prime256v1", "named_curve", 8)),
                             ("excessive message size", self.chain("prime256v1", "named_curve", 60))):
            with self.subTest(words):
                before = self.said().count(words)

                def refused_and_logged(words=words, chain=chain, before=before):
                    self.send_chain(daemon, chain)
                    return self.said().count(words) > before
                wait_for(f"the log's words: {words}", refused_and_logged, 20)
        self.send_chain(daemon, self.chain("prime256v1", "named_curve", 3))
        self.assertEqual(self.ask(daemon, "ping", "-n", "1")[0], 0)

    def test_a_servers_certificates_that_take_long_are_not_read(self):
        listing = self.chain("prime256v1", "explicit", 1)
        process = subprocess.Popen(
            ["openssl", "s_server", "-accept", "0", "-cert", self.pem / "server.crt", "-key", self.pem / "server.key", "-cert_chain", listing,
             "-tls1_3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in process.stdout:
            if found := re.search(r"ACCEPT .*:(\d+)", line):
                break
        env = dict(os.environ, RKNND_SERVER=f"tls:127.0.0.1:{found[1]}", **{k: str(v) for k, v in self.setting("alice").items()})
        done = run(BUILD / "bin/rknnctl", "ping", "-n", "1", env=env, text=True)
        process.kill()
        process.communicate(timeout=PATIENCE)
        self.assertIn("a certificate has a key with a curve of its own", done.stderr)

    def test_an_old_server(self):
        process = subprocess.Popen(
            ["openssl", "s_server", "-accept", "0", "-cert", self.pem / "old.crt", "-key", self.pem / "old.key", "-tls1_3"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in process.stdout:
            if found := re.search(r"ACCEPT .*:(\d+)", line):
                break
        env = dict(os.environ, RKNND_SERVER=f"tls:127.0.0.1:{found[1]}", **{k: str(v) for k, v in self.setting("alice").items()})
        done = run(BUILD / "bin/rknnctl", "ping", "-n", "1", env=env, text=True)
        process.kill()
        process.communicate(timeout=PATIENCE)
        self.assertIn("certificate has expired", done.stderr)
        self.assertIn("is the clock of this machine wrong", done.stderr)


class Starting(unittest.TestCase):
    """What a server refuses to start with."""

    def refused(self, words, *options):
        done = run(BUILD / "bin/rknnd", "--backend", "null:64:64", *options, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(words, done.stderr)

    def test_without_keys(self):
        with tempfile.TemporaryDirectory(prefix="rknnd-test-") as folder:
            folder = pathlib.Path(folder)
            keys = make_keys(folder / "keys", alice=KEY)
            self.refused("needs keys", "--listen", "tls:127.0.0.1:1")
            self.refused("tls-cert without tls-ca", "--listen", "tls:127.0.0.1:1", "--tls-cert", keys, "--tls-key", keys)
            self.refused("the key is missing", "--tls-psk-file", keys, "--tls-cert", keys, "--tls-ca", keys)
            self.refused("No such file", "--tls-psk-file", folder / "none")
            keys.chmod(0o644)
            self.refused("chmod 600", "--tls-psk-file", keys)
            self.refused("there is no user", "--rights", "tls/a b:run")

    def test_certificates_without_end(self):
        with tempfile.TemporaryDirectory(prefix="rknnd-test-") as folder:
            folder = pathlib.Path(folder)
            keys = make_keys(folder / "keys", alice=KEY)
            pipe, large, empty = folder / "pipe", folder / "large", folder / "empty"
            os.mkfifo(pipe)
            for file, size in (large, 1 << 40), (empty, 0):
                file.touch()
                os.truncate(file, size)
            for path, words in (("/dev/zero", "no pipe or device"), (pipe, "no pipe or device"), (folder, "no pipe or device"),
                                (large, "no pipe or device"), (folder / "none", "No such file")):
                self.refused(words, "--tls-cert", keys, "--tls-key", keys, "--tls-ca", path)
                self.refused(words, "--tls-cert", path, "--tls-key", keys, "--tls-ca", keys)
            for path in "/dev/zero", pipe, folder:
                self.refused("is not a file", "--tls-psk-file", path)
            os.chmod(large, 0o600)
            self.refused("is larger than", "--tls-psk-file", large)

    def test_other_machines_without_tls(self):
        self.refused("can be reached from other machines", "--listen", "tcp:0.0.0.0:1")
        with socket.socket() as s:
            s.bind(("0.0.0.0", 0))
            s.listen()
            fd = s.fileno()
            done = run(BUILD / "bin/rknnd", "--backend", "null:64:64", "--listen", f"fd:{fd}", text=True, pass_fds=(fd,))
            self.assertEqual(done.returncode, 2)
            self.assertIn("can be reached from other machines", done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
