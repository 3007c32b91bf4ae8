// A self-signed certificate for "localhost". Node.js can read X.509 but not write
// it; what is needed here is small and never changes, so it is written by hand.
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';

// tlv is one ASN.1 value in DER: a tag, a length and the content.
function tlv(tag, ...content) {
  const body = Buffer.concat(content);
  const length = [];
  for (let n = body.length; n > 0; n >>= 8) length.unshift(n & 0xff);
  const header = body.length < 0x80 ? [body.length] : [0x80 | length.length, ...length];
  return Buffer.concat([Buffer.from([tag, ...header]), body]);
}

const sequence = (...content) => tlv(0x30, ...content);
const hex = (text) => Buffer.from(text, 'hex');
const text = (tag, value) => tlv(tag, Buffer.from(value));

const host = 'localhost';
const ecdsaWithSHA256 = sequence(tlv(0x06, hex('2a8648ce3d040302')));
// A common name, for both the subject and the issuer.
const name = sequence(tlv(0x31, sequence(tlv(0x06, hex('550403')), text(0x0c, host))));
// From 1970 on, without an end: who trusts the certificate got it from this
// process and throws it away with it, and a node's clock may be wrong.
const validity = sequence(text(0x17, '700101000000Z'), text(0x18, '99991231235959Z'));
// The subject's alternative name. A client looks for the host there, and not in
// the subject.
const extensions = tlv(0xa3, sequence(sequence(
  tlv(0x06, hex('551d11')),
  tlv(0x04, sequence(text(0x82, host))),
)));

// selfSigned makes a key pair on P-256 and the certificate of it.
export function selfSigned() {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const serial = randomBytes(16);
  serial[0] = (serial[0] & 0x7f) | 0x40; // positive, and as short as it can be written
  const toSign = sequence(
    tlv(0xa0, tlv(0x02, hex('02'))), // version 3
    tlv(0x02, serial),
    ecdsaWithSHA256,
    name,
    validity,
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    extensions,
  );
  const signature = tlv(0x03, hex('00'), sign('sha256', toSign, privateKey));
  const der = sequence(toSign, ecdsaWithSHA256, signature);
  const lines = der.toString('base64').match(/.{1,64}/g).join('\n');
  return {
    der,
    certificatePem: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
    keyPem: privateKey.export({ type: 'pkcs8', format: 'pem' }),
  };
}
