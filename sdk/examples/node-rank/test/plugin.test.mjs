// The bundle as a process, with this test in the host's place.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import grpc from '@grpc/grpc-js';
import { selfSigned } from '../certificate.mjs';
import { plainCall, serviceOf } from '../messages.mjs';

const file = (path) => fileURLToPath(new URL(path, import.meta.url));
const plugin = file('../dist/node-rank');
const descriptorSet = readFileSync(file('../../../../shared/proto/descriptor.binpb'));
const PluginService = grpc.makeGenericClientConstructor(serviceOf(descriptorSet, 'evictd.plugin.v1.PluginService'));
const Other = grpc.makeGenericClientConstructor({
  check: plainCall('/grpc.health.v1.Health/Check'),
  shutdown: plainCall('/plugin.GRPCController/Shutdown'),
  garbage: plainCall('/evictd.plugin.v1.PluginService/Rank'),
});
const CAPABILITY_RANK = 4;

// start starts the plugin as the host does: with these variables and no others.
function start(t, more = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'node-rank-'));
  const child = spawn(process.execPath, [plugin], {
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    env: {
      EVICTD_PLUGIN_COOKIE: 'd3a9c1e6-node-pressure-eviction',
      PLUGIN_PROTOCOL_VERSIONS: '1',
      PLUGIN_UNIX_SOCKET_DIR: dir,
      EVICTD_PARENT_FD: '3',
      ...more,
    },
  });
  const log = [];
  createInterface(child.stderr).on('line', (line) => log.push(line));
  t.after(() => {
    child.kill('SIGKILL');
    rmSync(dir, { recursive: true });
  });
  return { child, dir, log, exit: once(child, 'exit') };
}

// shake reads the line on stdout.
async function shake({ child, dir }) {
  const [line] = await once(createInterface(child.stdout), 'line');
  const fields = line.split('|');
  assert.deepEqual(fields.slice(0, 5), ['1', '1', 'unix', `${dir}/plugin.sock`, 'grpc']);
  return { address: `unix:${fields[3]}`, certificate: fields[5] };
}

function connect(t, Client, address, credentials = grpc.credentials.createInsecure()) {
  const client = new Client(address, credentials, { 'grpc.ssl_target_name_override': 'localhost' });
  t.after(() => client.close());
  return (name, request) => new Promise((resolve, reject) => {
    client[name](request, { deadline: Date.now() + 5000 }, (err, reply) => (err ? reject(err) : resolve(reply)));
  });
}

test('describes, configures and ranks', async (t) => {
  const p = start(t);
  const { address, certificate } = await shake(p);
  assert.equal(certificate, '');
  const call = connect(t, PluginService, address);
  const described = await call('describe', { hostVersion: 'test' });
  assert.equal(described.name, 'node-rank');
  assert.deepEqual(described.capabilities, [CAPABILITY_RANK]);
  assert.deepEqual(described.wantLabels, ['tier']);

  await call('configure', { config: Buffer.from('{"tiers": ["web"]}') });
  await assert.rejects(call('configure', { config: Buffer.from('{"tires": []}') }),
    { code: grpc.status.FAILED_PRECONDITION, details: /unknown field "tires"/ });
  const { ranking } = await call('rank', {
    signal: 'memory.available',
    candidates: [{ pod: { uid: 'batch', labels: { tier: 'batch' } } }, { pod: { uid: 'web', labels: { tier: 'web' } } }],
  });
  assert.deepEqual(ranking.map(({ uid }) => uid), ['web', 'batch'], 'a refused configuration changes nothing');

  await assert.rejects(call('observe', {}), { code: grpc.status.UNIMPLEMENTED });
  const other = connect(t, Other, address);
  assert.deepEqual([...await other('check', Buffer.from('\x0a\x06plugin'))], [0x08, 0x01]);
  await assert.rejects(other('garbage', Buffer.from([0x12, 0x02, 0xff, 0xfe])), 'text that is not UTF-8');
  const records = p.log.map((line) => JSON.parse(line));
  assert.ok(records.some((r) => r['@level'] === 'info' && r['@message'] === 'configured' && r['@timestamp']), p.log.join('\n'));
});

test('a mistake is no refusal, and has its stack in the log', async (t) => {
  const p = start(t);
  const { address } = await shake(p);
  // A candidate without a pod, which the host never sends.
  await assert.rejects(connect(t, PluginService, address)('rank', { candidates: [{}] }),
    { code: grpc.status.UNKNOWN, details: /^TypeError: / });
  p.child.kill('SIGTERM');
  await once(p.child, 'close');
  const record = p.log.map((line) => JSON.parse(line)).find((r) => r['@level'] === 'error');
  assert.equal(record.call, 'rank');
  assert.match(record.stack, /^TypeError: .*\n +at /);
});

test('with a certificate of the host it serves that host only', async (t) => {
  const host = selfSigned();
  const { address, certificate } = await shake(start(t, { PLUGIN_CLIENT_CERT: host.certificatePem }));
  const its = new X509Certificate(Buffer.from(certificate, 'base64'));
  assert.equal(its.checkHost('localhost'), 'localhost');
  assert.ok(its.verify(its.publicKey));
  assert.doesNotMatch(certificate, /=/);

  const as = ({ keyPem, certificatePem }) =>
    grpc.credentials.createSsl(Buffer.from(its.toString()), Buffer.from(keyPem), Buffer.from(certificatePem));
  assert.equal((await connect(t, PluginService, address, as(host))('describe', {})).name, 'node-rank');
  await assert.rejects(connect(t, PluginService, address, as(selfSigned()))('describe', {}));
  await assert.rejects(connect(t, PluginService, address)('describe', {}));
});

test('leaves on SIGTERM, stays on SIGINT', async (t) => {
  const p = start(t);
  await shake(p);
  p.child.kill('SIGINT');
  p.child.kill('SIGTERM');
  assert.deepEqual(await p.exit, [0, null]);
});

test('leaves when it is asked to', async (t) => {
  const p = start(t);
  const { address } = await shake(p);
  // The answer may be lost with the connection, as that of go-plugin's own servers is.
  await connect(t, Other, address)('shutdown', Buffer.alloc(0)).catch((err) => assert.equal(err.code, grpc.status.UNAVAILABLE));
  assert.deepEqual(await p.exit, [0, null]);
});

test('leaves when the host is gone', async (t) => {
  const p = start(t);
  await shake(p);
  p.child.stdio[3].destroy();
  assert.deepEqual(await p.exit, [0, null]);
});

test('says why it cannot be started', async (t) => {
  for (const [env, why] of [
    [{ EVICTD_PLUGIN_COOKIE: '' }, /plugin directory/],
    [{ PLUGIN_PROTOCOL_VERSIONS: '2,3' }, /majors 2,3, this plugin only 1/],
  ]) {
    const p = start(t, env);
    assert.deepEqual(await p.exit, [1, null]);
    assert.match(p.log.join('\n'), why);
  }
});

test('needs nothing beside it', () => {
  const text = readFileSync(plugin, 'utf8');
  assert.match(text, /^#!\/.* --preserve-symlinks-main\n/);
  const wanted = [...text.matchAll(/\brequire\("([^"]+)"\)/g)].map((m) => m[1]);
  const foreign = wanted.filter((name) => !name.startsWith('node:') && !builtin.has(name));
  assert.deepEqual(foreign, []);
});

const builtin = new Set((await import('node:module')).builtinModules);
