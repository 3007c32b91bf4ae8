// Bundles the plugin with everything that it needs into one executable file.
// usage: node build.mjs [FILE]   (dist/node-rank)
import { chmod } from 'node:fs/promises';
import { build } from 'esbuild';

const file = process.argv[2] ?? 'dist/node-rank';
// The host starts plugins without PATH, so the interpreter's path is absolute. The
// option makes Node.js read the very file that it was given: the host may give it
// as /proc/self/fd/N, which must not be resolved to a path again.
const node = process.env.NODE_BINARY ?? '/usr/bin/node';

await build({
  entryPoints: ['plugin.mjs'],
  outfile: file,
  bundle: true,
  platform: 'node',
  target: 'node18',
  format: 'cjs',
  loader: { '.binpb': 'binary' },
  banner: { js: `#!${node} --preserve-symlinks-main` },
  legalComments: 'eof',
});
await chmod(file, 0o755);
