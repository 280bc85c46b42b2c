"""An acted adb server."""
import socket
import threading

from support.service import Daemon


def frame(text):
    return b"%04x%s" % (len(text), text)


class Server:
    """An adb server that answers each request by a function of its text; None: with silence."""

    def __init__(self, answer):
        self.answer, self.requests = answer, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        with connection:
            while digits := connection.recv(4, socket.MSG_WAITALL):
                request = connection.recv(int(digits, 16), socket.MSG_WAITALL).decode()
                self.requests.append(request)
                answer = self.answer(request)
                if isinstance(answer, Daemon):
                    connection.sendall(b"OKAY")
                    relay(connection, answer.uri[5:])
                    return
                if answer is None:
                    connection.recv(1)
                    return
                connection.sendall(answer)
                if not answer.startswith(b"OKAY"):
                    return


def relay(connection, path):
    """Both ways between the connection and a Unix socket, until one ends."""
    with socket.socket(socket.AF_UNIX) as other:
        other.connect(path)
        there = threading.Thread(target=copy, args=(connection, other), daemon=True)
        there.start()
        copy(other, connection)
        there.join()


def copy(source, to):
    try:
        while data := source.recv(65536):
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other side has gone
