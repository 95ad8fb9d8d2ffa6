// Runs cases against a server and prints {"case": "ok" or what went wrong} as one line of JSON.
//   node client.js ADDRESS FOLDER_OF_PROTO
'use strict';

const path = require('path');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');
const protobuf = require('protobufjs');

const [address, protoFolder] = process.argv.slice(2);
const definition = loader.loadSync(path.join(protoFolder, 'aclnn/v1/operator_service.proto'), {
  longs: String,
  enums: String,
  defaults: true,
});
const details = protobuf.loadSync(path.join(protoFolder, 'aclnn/v1/error_details.proto'));
const service = grpc.loadPackageDefinition(definition).aclnn.v1.OperatorService;
const client = new service(address, grpc.credentials.createInsecure());
const deadline = () => new Date(Date.now() + 60000);

const SHAPE = [2, 3, 8, 8];
const POOLED = [2, 3, 2, 2];
const GRADS = Float32Array.from({length: 24}, (_, i) => i + 0.5);
const INDICES = BigInt64Array.from({length: 24}, (_, i) => BigInt((i * 11) % 64));
const REQUEST = {
  operatorName: 'aclnnAdaptiveMaxPool2dBackward',
  arguments: [
    {name: 'gradOutput', tensor: {dataType: 'DATA_TYPE_FLOAT', shape: POOLED}},
    {name: 'self', tensor: {dataType: 'DATA_TYPE_FLOAT', shape: SHAPE}},
    {name: 'indices', tensor: {dataType: 'DATA_TYPE_INT64', shape: POOLED}},
    {name: 'gradInput', tensor: {}},
  ],
};

function assert(condition, message) {
  if (!condition) {
    throw new Error(message);
  }
}

function unary(method, request) {
  return new Promise((resolve, reject) => {
    client[method](request, {deadline: deadline()}, (error, reply) => (error ? reject(error) : resolve(reply)));
  });
}

function bytes(typed) {
  return Buffer.from(typed.buffer, typed.byteOffset, typed.byteLength);
}

// Sends messages, half-closes, resolves with {tensors, done, accepted} or rejects with gRPC's error.
function execute(messages) {
  return new Promise((resolve, reject) => {
    const call = client.execute({deadline: deadline()});
    const result = {tensors: {}, accepted: null, done: null};
    call.on('data', (reply) => {
      result.accepted = reply.accepted || result.accepted;
      for (const chunk of reply.chunks) {
        const storage = result.tensors[chunk.tensorIndex] || Buffer.alloc(0);
        assert(String(storage.length) === chunk.offset, 'a chunk out of order');
        result.tensors[chunk.tensorIndex] = Buffer.concat([storage, chunk.data]);
      }
      result.done = reply.done || result.done;
    });
    call.on('error', reject);
    call.on('end', () => resolve(result));
    messages.forEach((message) => call.write(message));
    call.end();
  });
}

function expectedGradient() {
  const sums = new Float32Array(2 * 3 * 64);
  GRADS.forEach((gradient, i) => {
    sums[Math.floor(i / 4) * 64 + Number(INDICES[i])] += gradient;
  });
  return bytes(sums);
}

function chunks(indices) {
  return [
    {tensorIndex: 0, offset: 0, data: bytes(GRADS)},
    {tensorIndex: 2, offset: 0, data: bytes(indices)},
  ];
}

function checkGradient(result) {
  assert(result.accepted !== null && result.done !== null, 'accepted or done is missing');
  assert(result.tensors[3].equals(expectedGradient()), 'wrong gradient');
}

// The ErrorInfo of a failed call.
function errorInfo(error) {
  const [raw] = error.metadata.get('grpc-status-details-bin');
  const status = details.lookupType('aclnn.v1.ErrorStatus').decode(raw);
  const any = status.details.find((item) => item.typeUrl === 'type.googleapis.com/google.rpc.ErrorInfo');
  const info = details.lookupType('aclnn.v1.ErrorInfo').decode(any.value);
  return {
    code: status.code,
    reason: info.reason,
    domain: info.domain,
    metadata: Object.fromEntries(info.metadata.map((entry) => [entry.key, entry.value])),
  };
}

async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error('the call was expected to fail');
}

const CASES = {
  async both_phases() {
    const plan = await unary('getWorkspaceSize', REQUEST);
    assert(plan.executor.length > 0, 'no executor');
    assert(plan.tensors.map((tensor) => tensor.transferred).join() === 'true,false,true,true', 'wrong tensors');
    const begin = {executor: plan.executor, workspaceSize: plan.workspaceSize};
    checkGradient(await execute([{begin}, {chunks: [chunks(INDICES)[1]]}, {chunks: [chunks(INDICES)[0]]}]));
    const error = await failure(execute([{begin, chunks: chunks(INDICES)}]));
    assert(error.code === grpc.status.FAILED_PRECONDITION, `code ${error.code}`);
    assert(errorInfo(error).reason === 'EXECUTOR_CONSUMED', errorInfo(error).reason);
    await unary('destroyExecutor', {executor: plan.executor});
  },
  async one_round_trip() {
    checkGradient(await execute([{begin: {request: REQUEST}, chunks: chunks(INDICES)}]));
  },
  async error_of_phase_one() {
    const wrong = {...REQUEST, arguments: REQUEST.arguments.filter((argument) => argument.name !== 'indices')};
    const error = await failure(unary('getWorkspaceSize', wrong));
    const info = errorInfo(error);
    assert(error.code === grpc.status.INVALID_ARGUMENT && info.code === error.code, `code ${error.code}`);
    assert(info.domain === 'aclnn' && info.reason === 'ACLNN_ERR_PARAM_NULLPTR', JSON.stringify(info));
    assert(info.metadata.aclnn_status === '161001', JSON.stringify(info));
    assert(info.metadata.parameter === 'indices' && error.details.includes('indices'), error.details);
  },
  async error_of_phase_two() {
    const bad = BigInt64Array.from(INDICES);
    bad[5] = 64n;
    const error = await failure(execute([{begin: {request: REQUEST}, chunks: chunks(bad)}]));
    const info = errorInfo(error);
    assert(info.metadata.aclnn_status === '161002', JSON.stringify(info));
    assert(info.metadata.position === '5' && info.metadata.value === '64', JSON.stringify(info));
  },
  async operators_are_listed() {
    const names = (await unary('listOperators', {})).operators.map((operator) => operator.name);
    assert(names.includes('aclnnAdaptiveMaxPool2dBackward'), names.join());
  },
  async server_tells_its_limits() {
    const info = await unary('getServerInfo', {});
    assert(Number(info.limits.maxChunkBytes) >= 1 << 20, JSON.stringify(info.limits));
    assert(info.codecs.includes('CODEC_LZ4_BLOCK'), info.codecs.join());
  },
};

async function main() {
  const outcome = {};
  for (const [name, run] of Object.entries(CASES)) {
    try {
      await run();
      outcome[name] = 'ok';
    } catch (error) {
      outcome[name] = String(error.stack || error);
    }
  }
  client.close();
  console.log(JSON.stringify(outcome));
}

main();
