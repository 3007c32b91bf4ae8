"""What every plugin of evictd needs and that has nothing to do with what it does: the
handshake, TLS, the socket of a container, the log, and leaving in time. It follows
docs/protocol.md."""

import base64
import concurrent.futures
import json
import os
import pkgutil
import signal
import ssl
import subprocess
import sys
import threading
import traceback

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_COOKIE = ("EVICTD_PLUGIN_COOKIE", "d3a9c1e6-node-pressure-eviction")
_MAJOR = "1"
_PACKAGE = "evictd.plugin.v1"
_MAX_MESSAGE_BYTES = 8 << 20
_MAX_ERROR_BYTES = 4 << 10
# Calls in flight get this long after SIGTERM. The host follows up with SIGKILL after 2 s.
_DRAIN_SECONDS = 1
_SERVING = b"\x08\x01"  # a HealthCheckResponse


class Refused(Exception):
    """What a call raises to refuse, with a text for the operator."""


def _messages():
    """The classes of the protocol's messages, from its released descriptor."""
    files = descriptor_pb2.FileDescriptorSet.FromString(pkgutil.get_data(__name__, "descriptor.binpb"))
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    # protobuf has the one from 4.22 on, and later no longer the other.
    make = getattr(message_factory, "GetMessageClass", None) or message_factory.MessageFactory(pool).GetPrototype
    names = [m.name for file in files.file for m in file.message_type]
    return {name: make(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in names}


messages = _messages()


def log(level, message, **fields):
    """Writes a line that the host takes over with its level and fields."""
    sys.stderr.write(json.dumps({"@level": level, "@message": message, **fields}) + "\n")
    sys.stderr.flush()


def serve(**calls):
    """Serves calls of PluginService, each from a request to its response, until the process
    is ended: by the host that has started it, or, in a container of its own, where
    EVICTD_PLUGIN_SOCKET says where the host looks for it, by the runtime."""
    path = os.environ.get("EVICTD_PLUGIN_SOCKET")
    # They wait for sigwait. A handler may interrupt what holds the lock that it needs.
    end = {signal.SIGTERM, signal.SIGINT} if path else {signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, end)
    if not path:
        _started_by_host()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(16), options=[
        ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
        ("grpc.so_reuseport", 0),
    ])

    def shutdown(_request, _context):
        os.kill(os.getpid(), signal.SIGTERM)
        return b""

    for service, handlers in {
        f"{_PACKAGE}.PluginService": {name: _unary(name, call) for name, call in calls.items()},
        "grpc.health.v1.Health": {"Check": grpc.unary_unary_rpc_method_handler(lambda *_: _SERVING)},
        "plugin.GRPCController": {"Shutdown": grpc.unary_unary_rpc_method_handler(shutdown)},
    }.items():
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    inode = _listen_at(server, path) if path else _listen(server)
    signal.sigwait(end)
    server.stop(_DRAIN_SECONDS).wait()
    if path and os.path.exists(path) and os.stat(path).st_ino == inode:  # else a later one's
        os.unlink(path)


def _started_by_host():
    if os.environ.get(_COOKIE[0]) != _COOKIE[1]:
        sys.exit("this is a plugin that evictd starts: put it into evictd's plugin directory instead of running it")
    if _MAJOR not in os.environ.get("PLUGIN_PROTOCOL_VERSIONS", "").split(","):
        sys.exit(f"this plugin speaks protocol major {_MAJOR}, which the host does not")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # A terminal sends it to everybody; the host decides.
    _leave_with_host()


def _unary(name, call):
    def answer(request, context):
        try:
            return messages[name + "Response"].SerializeToString(call(request))
        except Refused as why:
            log("warn", "call refused", call=name, error=str(why))
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(why)[:_MAX_ERROR_BYTES])
        except Exception as wrong:
            at = traceback.extract_tb(wrong.__traceback__)[-1]
            error = f"{type(wrong).__name__}: {wrong} ({os.path.basename(at.filename)}:{at.lineno})"
            log("error", "call failed", call=name, error=error, traceback=traceback.format_exc())
            context.abort(grpc.StatusCode.UNKNOWN, error[:_MAX_ERROR_BYTES])

    return grpc.unary_unary_rpc_method_handler(answer, request_deserializer=messages[name + "Request"].FromString)


def _listen_at(server, path):
    """Opens a socket beside the path, under a name that the host ignores, and moves it there
    when it serves. Returns its inode."""
    hidden = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}")
    server.add_insecure_port(f"unix:{hidden}")
    server.start()
    os.chmod(hidden, 0o600)
    inode = os.stat(hidden).st_ino
    os.rename(hidden, path)
    return inode


def _listen(server):
    """Opens the socket and tells the host where it is. With AutoMTLS both sides show a
    certificate that the other one got beforehand: the host's is in the environment, this
    one's in the line on standard output."""
    socket = os.environ["PLUGIN_UNIX_SOCKET_DIR"] + "/plugin.sock"
    client = os.environ.get("PLUGIN_CLIENT_CERT", "")
    shown = ""
    if client:
        key, certificate = _self_signed()
        server.add_secure_port(f"unix:{socket}", grpc.ssl_server_credentials(
            [(key, certificate)], root_certificates=client.encode(), require_client_auth=True))
        shown = base64.b64encode(ssl.PEM_cert_to_DER_cert(certificate.decode())).decode().rstrip("=")
    else:
        server.add_insecure_port(f"unix:{socket}")
    server.start()
    print(f"1|{_MAJOR}|unix|{socket}|grpc|{shown}", flush=True)


def _self_signed():
    """A key and a certificate for localhost. Python's own library can read certificates
    and not write them."""
    pem = subprocess.run([
        "/usr/bin/openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
        "-keyout", "/dev/stdout", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "36500",
    ], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout
    begin = pem.index(b"-----BEGIN CERTIFICATE-----")
    return pem[:begin], pem[begin:]


def _leave_with_host():
    """Ends the process when the host is gone, however it went: then the other end of the
    inherited pipe closes."""
    pipe = os.environ.get("EVICTD_PARENT_FD")
    if not pipe:
        return
    os.set_inheritable(int(pipe), False)

    def wait():
        while os.read(int(pipe), 1):
            pass
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()
