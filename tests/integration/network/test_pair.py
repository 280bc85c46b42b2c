#!/usr/bin/python3
"""rknnctl pair: two ends with people in front of them, and what somebody in between, or at one end, can do. This file
reads the protocol by itself: Python's TLS, and the codes computed from the secrets that it logs."""
import hashlib
import hmac
import os
import pathlib
import re
import select
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest

from support.service import BUILD, PATIENCE, Daemon, free_port, make_keys, wait_for

RKNNCTL = BUILD / "bin/rknnctl"
HELLO, NONCE, REVEAL, AGREED, KEY, STORED, ABORT = range(1, 8)
SIZE = 8 + 2 + 2 + 32 + 160
CODE = r"(\d{3} \d{3})"


def message(kind, data=b"", text=b"", port=0, magic=b"rknnpr01"):
    return magic + kind.to_bytes(2, "little") + port.to_bytes(2, "little") + data.ljust(32, b"\0") + text.ljust(160, b"\0")


def parsed(data):
    """Type, bytes, text."""
    return int.from_bytes(data[8:10], "little"), data[12:44], data[44:].rstrip(b"\0")


def commitment(nonce):
    return hashlib.sha256(b"rknnd pairing nonce" + nonce).digest()


def expand_label(secret, label, context, size, digest):
    """HKDF-Expand-Label of RFC 8446, for sizes of at most one hash."""
    label = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes([len(label)]) + label + bytes([len(context)]) + context
    return hmac.new(secret, info + b"\1", digest).digest()[:size]


def codes(session, keylog, client, board):
    """The codes of a session whose secrets were logged."""
    digest = "sha384" if session.cipher()[0].endswith("384") else "sha256"
    secret = bytes.fromhex(re.findall(r"EXPORTER_SECRET \w+ (\w+)", keylog.read_text())[-1])
    nothing = hashlib.new(digest).digest()
    derived = expand_label(secret, b"EXPORTER-rknnd-pairing", nothing, hashlib.new(digest).digest_size, digest)
    exported = expand_label(derived, b"exporter", nothing, 32, digest)
    mac = hmac.new(exported, client + board, "sha256").digest()
    digits = [f"{int.from_bytes(mac[i:i + 8], 'big') % 1000000:06}" for i in (0, 8)]
    return [f"{d[:3]} {d[3:]}" for d in digits]


class End:
    """An rknnctl pair and its person."""

    def __init__(self, *words, env=None):
        self.process = subprocess.Popen([RKNNCTL, "pair", *map(str, words)], env={**os.environ, **(env or {})},
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.said = ""

    def until(self, pattern):
        """Reads until it has said this; what the pattern's group matches."""
        def more():
            if select.select([self.process.stdout], [], [], 0)[0]:
                self.said += os.read(self.process.stdout.fileno(), 65536).decode()
            return re.search(pattern, self.said)
        wait_for(lambda: f"{pattern} in {self.said}", more)
        found = re.search(pattern, self.said)
        return found.group(found.lastindex or 0)

    def type(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def end(self):
        """Its exit code and all its words, when it has ended by itself."""
        self.process.wait(PATIENCE)
        rest, _ = self.process.communicate(timeout=PATIENCE)
        self.said += rest.decode()
        return self.process.returncode, self.said

    def drop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


class Base(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rknnd-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.board_keys, self.pc_keys = self.folder / "etc/tls.psk", self.folder / "home/rknnd/tls.psk"
        self.keylog = self.folder / "secrets"
        self.port = free_port()

    def end(self, *words, **options):
        one = End(*words, **options)
        self.addCleanup(one.drop)
        return one

    def board(self, *words):
        board = self.end("--listen", f"127.0.0.1:{self.port}", "--file", self.board_keys, *words)
        board.until("Waiting for")
        return board

    def pc(self, *words, port=None):
        return self.end(f"127.0.0.1:{port or self.port}", *words,
                        env={"XDG_CONFIG_HOME": str(self.folder / "home"), "RKNND_TLS_PSK_FILE": ""})

    def nothing_stored(self):
        self.assertFalse(self.board_keys.exists())
        self.assertFalse(self.pc_keys.exists())

    def context(self, server):
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        c.minimum_version = ssl.TLSVersion.TLSv1_3
        c.keylog_filename = str(self.keylog)
        if not server:
            c.check_hostname = False
            c.verify_mode = ssl.CERT_NONE
            return c
        pem = self.folder / "pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                        "/CN=x", "-keyout", pem, "-out", self.folder / "cert"], check=True, capture_output=True)
        c.load_cert_chain(self.folder / "cert", pem)
        return c

    def as_pc(self):
        """A TLS session of ours with the board."""
        s = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        session = self.context(False).wrap_socket(s)
        self.addCleanup(session.close)
        return session

    @staticmethod
    def receive(session):
        data = b""
        while len(data) < SIZE:
            more = session.recv(SIZE - len(data))
            if not more:
                return None
            data += more
        return data


class Pairing(Base):
    def pair(self, board, pc):
        code = board.until("Type this code there: " + CODE)
        pc.until("shows:")
        pc.type(code)
        code = pc.until("Now type this one there: " + CODE)
        board.until("shows another one:")
        board.type(code.replace(" ", ""))
        self.assertEqual((board.end()[0], pc.end()[0]), (0, 0), board.said + pc.said)

    def test_a_paired_machine_is_let_in_by_a_daemon_that_runs(self):
        self.board_keys.parent.mkdir()
        make_keys(self.board_keys, someone="00" * 16).chmod(0o640)
        os.environ["RKNND_TLS_PSK_FILE"] = str(self.board_keys)  # for Daemon, which asks it when it is there
        self.addCleanup(os.environ.pop, "RKNND_TLS_PSK_FILE")
        daemon = Daemon("--backend", "null:64:64", "--tls-psk-file", self.board_keys, transport="tls")
        self.addCleanup(daemon.stop)
        env = {**daemon.env, "XDG_CONFIG_HOME": str(self.folder / "home"), "RKNND_TLS_PSK_FILE": ""}
        board, pc = self.board("--daemon-port", daemon.uri.rsplit(":", 1)[1]), self.pc("--identity", "anna@pc")
        self.pair(board, pc)
        self.assertEqual(self.board_keys.stat().st_mode & 0o777, 0o640)
        self.assertEqual(self.pc_keys.stat().st_mode & 0o777, 0o600)
        self.assertIn(f"RKNND_SERVER={daemon.uri} uses", pc.said)
        for words in (["ping", "-n", "1"], ["status", "--limits"]):
            done = subprocess.run([RKNNCTL, *words], env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("tls/anna@pc", done.stdout)
        before = self.pc_keys.read_text()
        self.assertRegex(before, r"^anna@pc:[0-9a-f]{64} 127\.0\.0\.1:\d+\n$")
        self.assertEqual(daemon.rknnctl("ping", "-n", "1").returncode, 0)  # someone's key is still there
        # Once more: another key instead of that one, for both.
        board, pc = self.board("--daemon-port", daemon.uri.rsplit(":", 1)[1]), self.pc("--identity", "anna@pc")
        self.pair(board, pc)
        self.assertIn("it has a key already", board.said)
        self.assertRegex(self.pc_keys.read_text(), r"^anna@pc:[0-9a-f]{64} 127\.0\.0\.1:\d+\n$")
        self.assertNotEqual(self.pc_keys.read_text(), before)
        done = subprocess.run([RKNNCTL, "ping", "-n", "1"], env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_file_that_has_become_wrong_leaves_the_keys_as_they_were(self):
        keys = make_keys(self.folder / "keys", alice="11" * 16)
        os.environ["RKNND_TLS_PSK_FILE"] = str(keys)
        self.addCleanup(os.environ.pop, "RKNND_TLS_PSK_FILE")
        with open(self.folder / "log", "w+", encoding="utf8") as log:
            daemon = Daemon("--backend", "null:64:64", "--tls-psk-file", keys, transport="tls", stderr=log)
        self.addCleanup(daemon.stop)
        own = make_keys(self.folder / "own", alice="11" * 16)
        daemon.env["RKNND_TLS_PSK_FILE"] = str(own)
        for harm in (lambda: keys.write_text("nonsense\n"), lambda: keys.chmod(0o666), keys.unlink):
            harm()
            for _ in range(3):
                self.assertEqual(daemon.rknnctl("ping", "-n", "1").returncode, 0)
        self.assertEqual((self.folder / "log").read_text().count("stay as they were"), 3)
        make_keys(keys, bob="22" * 16)
        done = daemon.rknnctl("ping", "-n", "1")
        self.assertIn("does not know the identity", done.stderr)
        make_keys(keys, alice="11" * 16)
        self.assertEqual(daemon.rknnctl("ping", "-n", "1").returncode, 0)

    def test_comments_and_other_keys_stay(self):
        self.board_keys.parent.mkdir()
        text = "# mine\nbob:" + "ab" * 16 + "\n"
        self.board_keys.touch(0o600)
        self.board_keys.write_text(text)
        self.pair(self.board(), self.pc("--identity", "anna"))
        lines = self.board_keys.read_text().splitlines(True)
        self.assertRegex(lines[0], "^anna:[0-9a-f]{64}\n$")
        self.assertEqual("".join(lines[1:]), text)

    def test_a_wrong_code_is_not_stored_and_the_next_attempt_has_others(self):
        board, pc = self.board(), self.pc()
        code = board.until("Type this code there: " + CODE)
        pc.until("shows:")
        pc.type(f"{(int(code.replace(' ', '')) + 1) % 1000000:06}")
        code, said = pc.end()
        self.assertEqual(code, 1)
        self.assertIn("mistyped, or somebody is between", said)
        board.until("the other end gives up: the code that was typed is another one.*still waiting")
        self.nothing_stored()
        board.said = ""
        self.pair(board, self.pc())
        self.assertTrue(self.pc_keys.exists())

    def test_the_second_code_counts_too(self):
        board, pc = self.board(), self.pc()
        code = board.until("Type this code there: " + CODE)
        pc.until("shows:")
        pc.type(code)
        pc.until("Now type this one there: " + CODE)
        board.until("shows another one:")
        board.type(code)  # the board's own
        self.assertEqual((board.end()[0], pc.end()[0]), (1, 1))
        self.nothing_stored()

    def test_it_takes_no_longer_than_it_may(self):
        code, said = self.board("--wait", 1).end()
        self.assertEqual(code, 1)
        self.assertIn("it has taken too long", said)
        board, pc = self.board("--wait", 5), self.pc("--wait", 1)
        board.until(CODE)
        code, said = pc.end()
        self.assertEqual(code, 1)
        self.assertIn("it has taken too long", said)
        code, said = board.end()
        self.assertEqual(code, 1)
        self.nothing_stored()

    def test_nobody_there_and_nobody_to_type(self):
        code, said = self.pc().end()
        self.assertEqual(code, 3)
        self.assertIn("does `rknnctl pair --listen` wait there?", said)
        board, pc = self.board(), self.pc()
        pc.process.stdin.close()
        pc.process.stdin = None
        code, said = pc.end()
        self.assertEqual(code, 1)
        self.assertIn("nobody is there to type", said)
        board.until("nobody is there to type; still waiting")
        pc = self.pc()
        board.said = ""
        code = board.until("Type this code there: " + CODE)
        pc.until("shows:")
        pc.type(code)
        board.until("shows another one:")
        board.process.stdin.close()
        board.process.stdin = None
        code, said = board.end()
        self.assertEqual(code, 1)
        self.assertIn("nobody is there to type", said)
        self.assertEqual(pc.end()[0], 1)
        self.nothing_stored()

    def test_words_that_do_not_fit_together(self):
        for words, named in ((["--listen", "--identity", "x"], "--identity is for the other end"),
                             (["h", "--daemon-port", "1"], "--daemon-port is for the other end"),
                             ([], "say which board"), (["h", "--identity", "a b"], "make an identity"),
                             (["h:0"], "1 to 65535"), (["h", "-s", "tcp:x"], "pair takes HOST")):
            code, said = self.end(*words).end()
            self.assertEqual(code, 2, said)
            self.assertIn(named, said)


class Strangers(Base):
    def between(self, keep_to_it=True):
        """Somebody in the middle, with a session to each end: passes every message on, except that the board is told that
        the PC agrees, unless he keeps to it. Returns his port."""
        door = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(door.close)
        server = self.context(True)

        def carry(source, to):
            try:
                while data := self.receive(source):
                    if not keep_to_it and parsed(data)[0] == ABORT:
                        data = message(AGREED)
                    to.sendall(data)
            except OSError:
                pass
            if keep_to_it:
                to.close()

        def work():
            inside, _ = door.accept()
            pc, board = server.wrap_socket(inside, server_side=True), self.as_pc()
            self.addCleanup(pc.close)
            for way in ((pc, board), (board, pc)):
                threading.Thread(target=carry, args=way, daemon=True).start()
        threading.Thread(target=work, daemon=True).start()
        return door.getsockname()[1]

    def test_somebody_in_the_middle_has_other_codes(self):
        board = self.board()
        pc = self.pc(port=self.between())
        code = board.until("Type this code there: " + CODE)
        pc.until("shows:")
        pc.type(code)
        code, said = pc.end()
        self.assertEqual(code, 1)
        self.assertIn("somebody is between the two machines", said)
        board.until("still waiting")
        self.nothing_stored()

    def test_somebody_in_the_middle_who_says_that_all_is_well(self):
        board = self.board()
        pc = self.pc(port=self.between(keep_to_it=False))
        code = board.until("Type this code there: " + CODE)
        pc.until("shows:")
        pc.type(code)
        self.assertEqual(pc.end()[0], 1)
        self.assertNotIn("Now type this one there", pc.said)
        board.until("shows another one:")
        board.type(code)
        self.assertEqual(board.end()[0], 1)
        self.nothing_stored()

    def until_it_has_a_key(self):
        """The board, our session with it as "python", and the key that it has sent."""
        board, session, nonce = self.board(), self.as_pc(), os.urandom(32)
        session.sendall(message(HELLO, commitment(nonce), b"python"))
        kind, theirs, name = parsed(self.receive(session))
        self.assertEqual((kind, name.decode()), (NONCE, socket.gethostname()))
        session.sendall(message(REVEAL, nonce))
        of_board, of_client = codes(session, self.keylog, nonce, theirs)
        self.assertEqual(board.until("Type this code there: " + CODE), of_board)
        session.sendall(message(AGREED))
        board.until("shows another one:")
        board.type(of_client)
        kind, key, _ = parsed(self.receive(session))
        self.assertEqual(kind, KEY)
        return board, session, key

    def test_another_reading_agrees_with_the_board(self):
        board, session, key = self.until_it_has_a_key()
        session.sendall(message(STORED))
        self.assertEqual(board.end()[0], 0)
        self.assertIn(f"python:{key.hex()}\n", self.board_keys.read_text())

    def test_a_pairing_that_fails_at_its_end_leaves_the_keys_as_they_were(self):
        """The other end may have a key of before, and nothing else."""
        for before in "", "# ours\npython:" + "7b" * 32 + "\nanna:" + "5a" * 32 + "\n":
            for last in message(ABORT, text=b"no room on the disk"), message(HELLO), b"":
                with self.subTest(before=before, last=last):
                    self.board_keys.parent.mkdir(exist_ok=True)
                    self.board_keys.touch(0o600)
                    self.board_keys.write_text(before)
                    board, session, _ = self.until_it_has_a_key()
                    session.sendall(last)
                    session.close()
                    code, said = board.end()
                    self.assertNotEqual(code, 0)
                    self.assertIn("nothing is stored here", said)
                    self.assertEqual(sorted(self.board_keys.read_text().splitlines()), sorted(before.splitlines()))

    def test_another_reading_agrees_with_the_pc(self):
        with socket.create_server(("127.0.0.1", 0)) as door:
            pc = self.pc("--identity", "anna", port=door.getsockname()[1])
            session = self.context(True).wrap_socket(door.accept()[0], server_side=True)
            self.addCleanup(session.close)
        kind, promised, name = parsed(self.receive(session))
        self.assertEqual((kind, name), (HELLO, b"anna"))
        ours = os.urandom(32)
        session.sendall(message(NONCE, ours, b"a\x1b[31mboard"))
        kind, nonce, _ = parsed(self.receive(session))
        self.assertEqual((kind, commitment(nonce)), (REVEAL, promised))
        of_board, of_client = codes(session, self.keylog, nonce, ours)
        pc.until("shows:")
        self.assertNotIn("\x1b", pc.said)
        pc.type(of_board)
        self.assertEqual(pc.until("Now type this one there: " + CODE), of_client)
        self.assertEqual(parsed(self.receive(session))[0], AGREED)
        session.sendall(message(KEY, b"\x5a" * 32, port=8911))
        self.assertEqual(parsed(self.receive(session))[0], STORED)
        self.assertEqual(pc.end()[0], 0)
        self.assertEqual(self.pc_keys.read_text(), "anna:" + "5a" * 32 + " 127.0.0.1:8911\n")

    def test_promises_are_kept(self):
        board, session = self.board(), self.as_pc()
        session.sendall(message(HELLO, commitment(b"a" * 32), b"liar"))
        self.receive(session)
        session.sendall(message(REVEAL, b"b" * 32))
        board.until("does not keep to what it has promised; still waiting")
        self.assertEqual(parsed(self.receive(session))[0], ABORT)
        self.assertNotIn("Type this code", board.said)

    def test_strangers_do_not_end_the_waiting(self):
        board = self.board()
        hello = message(HELLO, commitment(b"a" * 32), b"x")
        wrongs = (b"GET / HTTP/1.0\r\n\r\n", message(AGREED), message(9), message(HELLO, b"", b"a b"),
                  message(HELLO, b"", b"x", port=1), message(HELLO, b"", b"x" * 160), message(NONCE, b"", b"x"),
                  hello[:100], message(HELLO, magic=b"rknnpr02"), hello + message(KEY, b"k" * 32, port=1), b"")
        for n, wrong in enumerate(wrongs, 1):
            session = self.as_pc()
            session.sendall(wrong)
            session.shutdown(socket.SHUT_WR)
            board.until(f"(?s)(still waiting.*){{{n}}}")
            session.close()
        with socket.create_connection(("127.0.0.1", self.port)) as plain:
            plain.sendall(b"rknn" * 20)
        board.until(f"(?s)(still waiting.*){{{len(wrongs) + 1}}}")
        session = self.reveal()
        board.until("Type this code there: " + CODE)
        session.sendall(message(STORED))
        board.until("says STORED where AGREED belongs; still waiting")
        self.nothing_stored()

    def reveal(self, name=b"python"):
        """One that has come as far as the codes."""
        session, nonce = self.as_pc(), os.urandom(32)
        session.sendall(message(HELLO, commitment(nonce), name))
        self.receive(session)
        session.sendall(message(REVEAL, nonce))
        return session

    def silent(self, n, data=b""):
        for _ in range(n):
            s = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
            self.addCleanup(s.close)
            s.sendall(data)

    def finish(self, board, pc, name):
        code = board.until(f"{name} at 127.0.0.1 wants to be paired.*Type this code there: {CODE}")
        pc.until("shows:")
        pc.type(code)
        code = pc.until("Now type this one there: " + CODE)
        board.until(f"{name} at 127.0.0.1 says that the code is right")
        board.type(code)
        self.assertEqual((board.end()[0], pc.end()[0]), (0, 0), board.said + pc.said)

    def test_strangers_who_say_nothing_are_in_nobodys_way(self):
        board = self.board("--wait", 90)  # each of them one after the other would take longer
        self.silent(15)
        self.silent(15, b"\x16\x03\x01\x40\x00")  # the beginning of a record that does not come
        pc = self.pc("--identity", "anna")
        self.finish(board, pc, "anna")
        self.assertNotIn("too many", board.said)

    def test_more_strangers_than_there_is_room_for(self):
        board = self.board("--wait", 90)
        pc = self.pc("--identity", "anna")
        board.until("anna at .*Type this code")
        self.silent(100)  # those that have said nothing go first
        board.until("there are too many of this network; still waiting")
        self.finish(board, pc, "anna")

    def test_strangers_who_speak_do_not_take_the_place_of_others(self):
        board = self.board("--wait", 90)
        liars = [self.reveal(b"anna") for _ in range(2)]
        for liar in liars:
            liar.sendall(message(AGREED))
        board.until("(?s)(says that the code is right.*){2}")
        pc = self.pc("--identity", "bob")
        self.finish(board, pc, "bob")
        for liar in liars:
            self.assertEqual(parsed(self.receive(liar))[0], ABORT)
        self.assertNotIn("anna", self.board_keys.read_text())

    def test_a_network_is_shown_some_times_only(self):
        board = self.board("--wait", 90)
        for n in range(5):
            session = self.reveal(b"x%d" % n)
            board.until(f"x{n} at 127.0.0.1 wants")
            session.close()
        self.reveal(b"x5")
        board.until("its network has had 5 attempts; still waiting")
        self.assertNotIn("x5 at", board.said)


if __name__ == "__main__":
    sys.exit(unittest.main())
