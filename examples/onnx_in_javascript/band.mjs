// Evaluate a band in Node: node band.mjs band.onnx 0.1 0.2 0.3
// Each number is one x; for a model of d inputs, d numbers are one row.
import ort from "onnxruntime-node";

const [file, ...words] = process.argv.slice(2);
const session = await ort.InferenceSession.create(file);
const { shape, type } = session.inputMetadata[0];
const Numbers = type === "float64" ? Float64Array : Float32Array;
const x = new ort.Tensor(type, Numbers.from(words, Number), [words.length / shape[1], shape[1]]);
const { mean, lower, upper } = await session.run({ x });
const parts = { mean, lower, upper };
console.log(JSON.stringify(Object.fromEntries(Object.entries(parts).map(([name, part]) => [name, [...part.data]]))));
