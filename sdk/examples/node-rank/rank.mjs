// The order in which pods go, apart from everything that brings a request here.

// The label that says which tier a pod belongs to.
export const label = 'tier';

// parseConfig reads the plugin's configuration, {"tiers": ["batch", "worker"]}: the
// tiers that go first, in that order. It throws an error that names everything
// that is wrong with it.
export function parseConfig(json) {
  const config = json === '' ? {} : decode(json);
  if (config === null || typeof config !== 'object' || Array.isArray(config)) {
    throw new Error('config: want an object');
  }
  const errors = Object.keys(config)
    .filter((key) => key !== 'tiers')
    .map((key) => `config: unknown field ${JSON.stringify(key)}, want "tiers"`);
  const tiers = config.tiers === undefined ? ['batch'] : config.tiers;
  if (!Array.isArray(tiers)) {
    errors.push('config: tiers: want a list of values of the label');
  } else {
    tiers.forEach((tier, i) => {
      if (typeof tier !== 'string' || tier === '') {
        errors.push(`config: tiers[${i}]: is ${JSON.stringify(tier)}, want a value of the label`);
      } else if (tiers.indexOf(tier) < i) {
        errors.push(`config: tiers[${i}]: ${JSON.stringify(tier)} is listed twice`);
      }
    });
  }
  if (errors.length > 0) throw new Error(errors.join('\n'));
  return tiers;
}

function decode(json) {
  try {
    return JSON.parse(json);
  } catch (err) {
    throw new Error(`config: ${err.message}`);
  }
}

// rank puts the pods of the tiers first, in the order of the tiers. Inside a tier,
// and among all pods of other tiers or none, it is the kubelet's order for memory:
// who uses more than requested, then the lower priority, then the larger use beyond
// the request. Ties stay as they came.
export function rank(request, tiers) {
  return request.candidates
    .map((candidate) => rowOf(candidate, request.signal, tiers))
    .sort(compare)
    .map(({ uid, reason }) => ({ uid, reason }));
}

// Of the protocol's enum MeasurementState.
const MEASUREMENT_STATE_MEASURED = 2;
const MEASUREMENT_STATE_NO_STATS = 3;

// Pods without stats go before all others and pods of unknown use after them.
const noStats = 0;
const measured = 1;
const unknown = 2;

function rowOf({ pod, measurement }, signal, tiers) {
  const state = stateOf(measurement);
  // Figures are BigInt: a number would lose digits of large ones.
  const usage = measurement?.usage.find((u) => u.signal === signal)?.value ?? 0n;
  const beyond = usage - pod.memoryRequestBytes;
  const tier = tiers.indexOf(pod.labels[label]);
  const exceeds = state === measured && beyond > 0n;
  return {
    uid: pod.uid,
    tier: tier < 0 ? tiers.length : tier,
    exceeds: state === noStats ? 0 : exceeds ? 1 : 2,
    priority: pod.priority,
    state,
    beyond,
    reason: [
      tier < 0 ? 'no tier that goes first' : `tier ${tiers[tier]}`,
      state === noStats ? 'no figures' : state === unknown ? 'use unknown' : `${beyond} bytes beyond its request`,
      `priority ${pod.priority}`,
    ].join(', '),
  };
}

function stateOf(measurement) {
  switch (measurement?.state) {
    case MEASUREMENT_STATE_MEASURED:
      return measured;
    case MEASUREMENT_STATE_NO_STATS:
      return noStats;
    default: // also what a newer host may have that is not known here
      return unknown;
  }
}

// The sort is stable.
function compare(a, b) {
  return (
    a.tier - b.tier ||
    a.exceeds - b.exceeds ||
    a.priority - b.priority ||
    a.state - b.state ||
    (a.state === measured ? Number(b.beyond > a.beyond) - Number(b.beyond < a.beyond) : 0)
  );
}
