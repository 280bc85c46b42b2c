// node onnx_ort.js FOLDER_OF_NODE_MODULES MODEL FOLDER: runs a model in ONNX Runtime (all graph
// optimizations, one thread) on FOLDER/inN.bin (written first, the same numbers each
// time) and writes FOLDER/outN.bin.
'use strict';
const fs = require('fs');
const path = require('path');
const [modules, model, folder] = process.argv.slice(2);
const ort = require(path.join(modules, 'onnxruntime-node'));

function pseudoRandom(n) {
    let seed = 12345;
    return Float32Array.from({length: n}, () => {
        seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
        return seed / 0x7fffffff * 2 - 1;
    });
}

async function main() {
    const options = {intraOpNumThreads: 1, graphOptimizationLevel: 'all'};
    const session = await ort.InferenceSession.create(model, options);
    const feeds = {};
    session.inputMetadata.forEach((input, i) => {
        const dims = input.shape.map(d => typeof d === 'number' && d > 0 ? d : 1);
        const values = pseudoRandom(dims.reduce((a, b) => a * b, 1));
        fs.writeFileSync(path.join(folder, `in${i}.bin`), Buffer.from(values.buffer));
        feeds[input.name] = new ort.Tensor('float32', values, dims);
    });
    const results = await session.run(feeds);
    session.outputNames.forEach((name, i) => {
        const d = results[name].data;
        fs.writeFileSync(path.join(folder, `out${i}.bin`),
                         Buffer.from(d.buffer, d.byteOffset, d.byteLength));
    });
}

main().catch(e => { console.error(e.message); process.exit(1); });
