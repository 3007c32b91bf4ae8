// What every plugin of evictd needs and that has nothing to do with what it does:
// the handshake, TLS, the socket of a container, the log, and leaving in time. It
// follows docs/protocol.md.
import { chmodSync, renameSync, rmSync, statSync } from 'node:fs';
import net from 'node:net';
import { basename, dirname, join } from 'node:path';
import grpc from '@grpc/grpc-js';
import { selfSigned } from './certificate.mjs';
import { plainCall, serviceOf } from './messages.mjs';
import descriptorSet from '../../../shared/proto/descriptor.binpb';

const cookie = ['EVICTD_PLUGIN_COOKIE', 'd3a9c1e6-node-pressure-eviction'];
const major = '1';
const maxMessageBytes = 8 << 20;
const maxErrorBytes = 4 << 10;
// Calls in flight get this long after SIGTERM. The host follows up with SIGKILL
// after 2 s.
const drainMillis = 1000;
// A HealthCheckResponse with the status SERVING.
const serving = Buffer.from([0x08, 0x01]);

// A call throws Refused to refuse, with a text for the operator.
export class Refused extends Error {}

// serve serves the given calls of PluginService until the process is ended: by the
// host that has started it, or, in a container of its own, where EVICTD_PLUGIN_SOCKET
// says where the host looks for it, by the runtime. Each takes a request and returns
// the response, or throws Refused.
export function serve(calls) {
  const path = process.env.EVICTD_PLUGIN_SOCKET;
  if (!path) startedByHost();
  const server = new grpc.Server({
    'grpc.max_receive_message_length': maxMessageBytes,
    'grpc.max_send_message_length': maxMessageBytes,
  });
  server.addService(serviceOf(descriptorSet, 'evictd.plugin.v1.PluginService'), unary(calls));
  server.addService({ check: plainCall('/grpc.health.v1.Health/Check') }, {
    check: (_, callback) => callback(null, serving),
  });
  server.addService({ shutdown: plainCall('/plugin.GRPCController/Shutdown') }, {
    shutdown: (_, callback) => {
      callback(null, Buffer.alloc(0));
      end(server);
    },
  });
  process.on('SIGINT', () => path && end(server)); // A terminal sends it to everybody; the host decides.
  process.on('SIGTERM', () => end(server));
  if (path) listenAt(server, path);
  else listen(server);
}

function startedByHost() {
  if (process.env[cookie[0]] !== cookie[1]) {
    fail('this is a plugin that evictd starts: put it into evictd\'s plugin directory instead of running it');
  }
  if (!(process.env.PLUGIN_PROTOCOL_VERSIONS ?? '').split(',').includes(major)) {
    fail(`the host speaks protocol majors ${process.env.PLUGIN_PROTOCOL_VERSIONS}, this plugin only ${major}`);
  }
  leaveWithHost();
}

// log writes a line that the host takes over with its level and fields.
export function log(level, message, fields = {}) {
  const record = { '@level': level, '@message': message, '@timestamp': new Date().toISOString(), ...fields };
  process.stderr.write(`${JSON.stringify(record)}\n`);
}

function fail(why) {
  process.stderr.write(`${why}\n`);
  process.exit(1);
}

function unary(calls) {
  return Object.fromEntries(Object.entries(calls).map(([name, answer]) => [name, (call, callback) => {
    let response;
    try {
      response = answer(call.request);
    } catch (err) {
      if (err instanceof Refused) {
        log('warn', 'call refused', { call: name, error: err.message });
        callback({ code: grpc.status.FAILED_PRECONDITION, details: clip(err.message) });
      } else {
        log('error', 'call failed', { call: name, error: `${err}`, stack: err?.stack });
        callback({ code: grpc.status.UNKNOWN, details: clip(`${err}`) });
      }
      return;
    }
    callback(null, response);
  }]));
}

// clip shortens what travels in a header of HTTP/2.
function clip(message) {
  const bytes = Buffer.from(message);
  return bytes.length <= maxErrorBytes ? message : `${bytes.toString('utf8', 0, maxErrorBytes - 6)}...`;
}

// listen opens the socket and tells the host where it is. With AutoMTLS both sides
// show a certificate that the other one got beforehand: the host's is in the
// environment, this one's in the line on stdout.
function listen(server) {
  const socket = `${process.env.PLUGIN_UNIX_SOCKET_DIR}/plugin.sock`;
  const client = process.env.PLUGIN_CLIENT_CERT;
  let credentials = grpc.ServerCredentials.createInsecure();
  let shown = '';
  if (client) {
    const own = selfSigned();
    const pair = { private_key: Buffer.from(own.keyPem), cert_chain: Buffer.from(own.certificatePem) };
    credentials = grpc.ServerCredentials.createSsl(Buffer.from(client), [pair], true);
    shown = own.der.toString('base64').replace(/=+$/, '');
  }
  server.bindAsync(`unix:${socket}`, credentials, (err) => {
    if (err) fail(`listen on ${socket}: ${err.message}`);
    process.stdout.write(`1|${major}|unix|${socket}|grpc|${shown}\n`);
  });
}

// listenAt opens a socket beside the path, under a name that the host ignores, and
// moves it there when it serves.
function listenAt(server, path) {
  const hidden = join(dirname(path), `.${basename(path)}.${process.pid}`);
  rmSync(hidden, { force: true }); // a container's process has the same id after each start
  server.bindAsync(`unix:${hidden}`, grpc.ServerCredentials.createInsecure(), (err) => {
    if (err) fail(`listen on ${hidden}: ${err.message}`);
    chmodSync(hidden, 0o600);
    const { ino } = statSync(hidden);
    renameSync(hidden, path);
    process.on('exit', () => { // unless it is a later one's
      if (statSync(path, { throwIfNoEntry: false })?.ino === ino) rmSync(path);
    });
  });
}

// leaveWithHost ends the process when the host is gone, however it went: then the
// other end of the inherited pipe closes.
function leaveWithHost() {
  const fd = process.env.EVICTD_PARENT_FD;
  if (!fd) return;
  const pipe = new net.Socket({ fd: Number(fd), readable: true, writable: false });
  pipe.on('close', () => process.exit(0));
  pipe.on('error', () => process.exit(0));
  pipe.resume();
}

// end answers the calls in flight and ends the process.
function end(server) {
  setTimeout(() => process.exit(0), drainMillis);
  server.tryShutdown(() => process.exit(0));
}
