// Services of grpc-js from a descriptor set, which is what protoc and buf make of
// .proto files. Messages are read strictly, and 64-bit integers are BigInt.
import { create, createFileRegistry, fromBinary, toBinary } from '@bufbuild/protobuf';
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';

// serviceOf returns what grpc-js needs to serve or to call the named service.
export function serviceOf(descriptorSet, name) {
  const service = createFileRegistry(fromBinary(FileDescriptorSetSchema, descriptorSet)).getService(name);
  return Object.fromEntries(service.methods.map((method) => [method.localName, {
    path: `/${service.typeName}/${method.name}`,
    requestStream: false,
    responseStream: method.methodKind === 'server_streaming',
    ...codec('request', method.input),
    ...codec('response', method.output),
  }]));
}

// plainCall is a unary call whose messages are taken as they are, in bytes.
export function plainCall(path) {
  const same = (bytes) => bytes;
  return {
    path,
    requestStream: false,
    responseStream: false,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  };
}

function codec(side, type) {
  return {
    [`${side}Serialize`]: (message) => Buffer.from(toBinary(type, create(type, message))),
    [`${side}Deserialize`]: (bytes) => fromBinary(type, bytes),
  };
}
