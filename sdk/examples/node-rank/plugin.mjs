// An evictd plugin that ranks pods for memory pressure: pods of certain tiers go
// first, by a label.
import { version } from './package.json';
import { log, Refused, serve } from './evictd.mjs';
import { label, parseConfig, rank } from './rank.mjs';

// Of the protocol's enum Capability.
const CAPABILITY_RANK = 4;

let tiers = parseConfig('');

serve({
  describe: ({ hostVersion }) => {
    log('debug', 'described', { host: hostVersion });
    return {
      name: 'node-rank',
      version,
      capabilities: [CAPABILITY_RANK],
      configurable: true,
      signals: [{ signal: 'memory.available' }, { signal: 'allocatableMemory.available' }],
      wantLabels: [label],
    };
  },

  // A configuration that is refused leaves the former one in force.
  configure: ({ config }) => {
    try {
      tiers = parseConfig(Buffer.from(config).toString());
    } catch (err) {
      throw new Refused(err.message);
    }
    log('info', 'configured', { tiers });
    return {};
  },

  rank: (request) => ({ ranking: rank(request, tiers) }),
});
