// tests/models/onnxruntime.mjs MODEL BASE TILEWRIGHT TOLERANCE: runs MODEL in onnxruntime on seeded inputs, the package
// BASE.twp in the simulator on the same inputs, and compares every output.
import {execFileSync} from "node:child_process";
import {readFileSync, writeFileSync} from "node:fs";
import {createRequire} from "node:module";
import {resolve} from "node:path";

const [model, base, tilewright, tolerance] = process.argv.slice(2);
const {InferenceSession, Tensor} = createRequire(resolve("models/") + "/")("onnxruntime-node");

// xorshift32 from 1, in [-1, 1): the sequence is a definition, so expected values can be written down.
function draw(count) {
  const out = new Float32Array(count);
  let s = 1;
  for (let i = 0; i < count; ++i) {
    s ^= s << 13; s ^= s >>> 17; s ^= s << 5; s >>>= 0;
    out[i] = s / 2 ** 31 - 1;
  }
  return out;
}

function writeNpy(path, data, shape) {
  const list = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  let header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${list}), }`;
  header += " ".repeat((64 - ((10 + header.length + 1) % 64)) % 64) + "\n";
  const head = Buffer.from([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length & 255, header.length >> 8]);
  writeFileSync(path, Buffer.concat([head, Buffer.from(header), Buffer.from(data.buffer)]));
}

function readNpy(path) {
  const bytes = readFileSync(path);
  const start = 10 + bytes.readUInt16LE(8);
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset + start, bytes.byteOffset + bytes.length));
}

const session = await InferenceSession.create(model);
const feeds = {}, options = [];
for (const input of session.inputMetadata) {
  const shape = input.shape.map((extent) => (typeof extent === "number" ? extent : 1));
  const data = draw(shape.reduce((a, b) => a * b, 1));
  feeds[input.name] = new Tensor("float32", data, shape);
  writeNpy(`${base}.${options.length}.npy`, data, shape);
  options.push("--input", `${input.name}=${base}.${options.length}.npy`);
}
const expected = await session.run(feeds);
const outputs = session.outputNames.map((name, i) => [name, `${base}.out${i}.npy`]);
for (const [name, path] of outputs) options.push("--output", `${name}=${path}`);
const run = JSON.parse(execFileSync(tilewright, ["simulate", `${base}.twp`, ...options, "--json"], {maxBuffer: 1 << 28}));

let bad = false;
for (const [name, path] of outputs) {
  const actual = readNpy(path), want = expected[name].data;
  let worst = actual.length === want.length ? 0 : Infinity;
  for (let i = 0; i < want.length && worst < Infinity; ++i) {
    const error = Math.abs(actual[i] - want[i]);
    worst = error >= 0 ? Math.max(worst, error) : Infinity;
  }
  bad ||= !(worst <= Number(tolerance));
  console.log(`${base}: ${name} ${worst <= Number(tolerance) ? "agrees" : "DIFFERS"}: max abs error ${worst.toExponential(3)} ` +
              `(allowed ${tolerance}), first value ${actual[0]} against ${want[0]}; ${run.cycles} cycles`);
}
process.exit(bad ? 1 : 0);
