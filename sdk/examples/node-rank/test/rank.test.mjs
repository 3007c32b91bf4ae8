import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseConfig, rank } from '../rank.mjs';

const signal = 'memory.available';
const [UNKNOWN, MEASURED, NO_STATS] = [1, 2, 3];

function pod(uid, { tier, priority = 0, request = 0, use, state = MEASURED } = {}) {
  return {
    pod: { uid, labels: tier ? { tier } : {}, priority, memoryRequestBytes: BigInt(request) },
    measurement: { state, usage: use === undefined ? [] : [{ signal, value: BigInt(use) }] },
  };
}

const order = (tiers, ...candidates) => rank({ signal, candidates }, tiers).map(({ uid }) => uid);

test('tiers go in their order, before all other pods', () => {
  assert.deepEqual(
    order(['batch', 'worker'],
      pod('web', { tier: 'web', use: 900 }), pod('none', { use: 800 }),
      pod('worker', { tier: 'worker', use: 2 }), pod('batch', { tier: 'batch', use: 1 })),
    ['batch', 'worker', 'web', 'none'],
  );
});

test('inside a tier it is the kubelet\'s order', () => {
  assert.deepEqual(
    order(['batch'],
      pod('within its request', { use: 900, request: 1000 }),
      pod('important', { use: 900, priority: 7 }),
      pod('small', { use: 100 }),
      pod('large', { use: 500, request: 200 })),
    ['large', 'small', 'important', 'within its request'],
  );
});

test('a pod without stats goes first, one of unknown use after the others of its priority', () => {
  assert.deepEqual(
    order([],
      pod('unknown', { state: UNKNOWN, use: 900 }),
      pod('of a newer host', { state: 42, use: 900 }),
      pod('within', { use: 10, request: 20 }),
      pod('important', { use: 10, request: 20, priority: 1 }),
      pod('no stats', { state: NO_STATS })),
    ['no stats', 'within', 'unknown', 'of a newer host', 'important'],
  );
  assert.deepEqual(order([], { pod: pod('bare').pod, measurement: undefined }), ['bare']);
});

test('ties stay as they came, and so does the request', () => {
  const candidates = ['c', 'a', 'b'].map((uid) => pod(uid, { use: 5 }));
  assert.deepEqual(order([], ...candidates), ['c', 'a', 'b']);
  assert.deepEqual(candidates.map((c) => c.pod.uid), ['c', 'a', 'b']);
});

test('figures beyond 2^53 are told apart', () => {
  const big = 2n ** 62n;
  assert.deepEqual(order([], pod('less', { use: big }), pod('more', { use: big + 1n })), ['more', 'less']);
});

test('every pod has a reason', () => {
  const [batch, web] = rank({
    signal,
    candidates: [pod('web', { use: 1, request: 3 }), pod('batch', { tier: 'batch', use: 9, priority: 4 })],
  }, ['batch']);
  assert.equal(batch.reason, 'tier batch, 9 bytes beyond its request, priority 4');
  assert.equal(web.reason, 'no tier that goes first, -2 bytes beyond its request, priority 0');
});

test('the configuration is strict and says all that is wrong', () => {
  assert.deepEqual(parseConfig(''), ['batch']);
  assert.deepEqual(parseConfig('{"tiers": ["a", "b"]}'), ['a', 'b']);
  assert.deepEqual(parseConfig('{"tiers": []}'), []);
  for (const [json, ...wrong] of [
    ['{"tires": []}', /unknown field "tires"/],
    ['{"tiers": "batch"}', /tiers: want a list/],
    ['{"tiers": ["a", 1, "a", ""]}', /tiers\[1\]/, /tiers\[2\]: "a" is listed twice/, /tiers\[3\]/],
    ['{"tiers": null}', /tiers: want a list/],
    ['[]', /want an object/],
    ['null', /want an object/],
    ['{', /JSON/],
  ]) {
    for (const w of wrong) assert.throws(() => parseConfig(json), w, json);
  }
});
