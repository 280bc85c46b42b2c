// node ort.js FOLDER_OF_NODE_MODULES: ONNX Runtime (all graph optimizations, one thread) at the
// other end of a pipe. Each line of standard input is a request, each line of standard output its answer,
// both JSON:
//   {model, folder, integers, exact}  runs on FOLDER/inN.bin (pseudo-random numbers are written there where
//                    there is none) and writes FOLDER/outN.bin; answers with the outputs' types.
//                    integers: convolutions of signed numbers are not left to floats, as they are
//                    on x86 otherwise. exact: sums of products of bytes are not saturated at 16
//                    bits, as they are on x86 without VNNI; not for all models of signed numbers
//   {model, ranges}  the least and the largest value of each output
//   {model, runs}    runs on zeros; answers with the times in microseconds
// An answer with `error` says why not.
'use strict';
const fs = require('fs');
const path = require('path');
const readline = require('readline');
const ort = require(path.join(process.argv[2], 'onnxruntime-node'));

const kept = new Map();

async function sessionOf(model, {integers, exact} = {}) {
    const options = {intraOpNumThreads: 1, interOpNumThreads: 1, graphOptimizationLevel: 'all',
                     logSeverityLevel: 3};
    const session = {};
    if (integers) session.qdqisint8allowed = '1';
    if (exact) session.x64quantprecision = '1';
    options.extra = {session};
    return ort.InferenceSession.create(model, options);
}

function dimsOf(input) {
    return input.shape.map(d => typeof d === 'number' && d > 0 ? d : 1);
}

function pseudoRandom(n) {
    let seed = 12345;
    return Float32Array.from({length: n}, () => {
        seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
        return seed / 0x7fffffff * 2 - 1;
    });
}

function valuesOf(file, n) {
    if (!file || !fs.existsSync(file)) {
        const values = pseudoRandom(n);
        if (file) fs.writeFileSync(file, Buffer.from(values.buffer));
        return values;
    }
    const bytes = fs.readFileSync(file);
    return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + 4 * n));
}

function feedsOf(session, folder) {
    const feeds = {};
    session.inputMetadata.forEach((input, i) => {
        const dims = dimsOf(input);
        const file = folder && path.join(folder, `in${i}.bin`);
        feeds[input.name] =
            new ort.Tensor('float32', valuesOf(file, dims.reduce((a, b) => a * b, 1)), dims);
    });
    return feeds;
}

async function compute({model, folder, integers, exact}) {
    const session = await sessionOf(model, {integers, exact});
    const results = await session.run(feedsOf(session, folder));
    session.outputNames.forEach((name, i) => {
        const d = results[name].data;
        fs.writeFileSync(path.join(folder, `out${i}.bin`),
                         Buffer.from(d.buffer, d.byteOffset, d.byteLength));
    });
    await session.release();
    return {types: session.outputNames.map(name => results[name].type)};
}

async function ranges({model}) {
    const session = await sessionOf(model);
    const results = await session.run(feedsOf(session));
    const answer = {};
    for (const name of session.outputNames.filter(n => results[n].type === 'float32')) {
        const d = results[name].data;
        answer[name] = [d.reduce((a, b) => Math.min(a, b)), d.reduce((a, b) => Math.max(a, b))];
    }
    await session.release();
    return answer;
}

async function time({model, runs}) {
    if (!kept.has(model)) kept.set(model, await sessionOf(model));
    const session = kept.get(model);
    const feeds = {};
    for (const input of session.inputMetadata) {
        const dims = dimsOf(input);
        const zeros = new Float32Array(dims.reduce((a, b) => a * b, 1));
        feeds[input.name] = new ort.Tensor('float32', zeros, dims);
    }
    const times = [];
    for (let i = 0; i < runs; i++) {
        const start = process.hrtime.bigint();
        await session.run(feeds);
        times.push(Number(process.hrtime.bigint() - start) / 1e3);
    }
    return {times};
}

async function main() {
    for await (const line of readline.createInterface({input: process.stdin})) {
        const request = JSON.parse(line);
        const work = request.runs ? time : request.ranges ? ranges : compute;
        const answer = await work(request).catch(e => ({error: e.message}));
        process.stdout.write(JSON.stringify(answer) + '\n');
    }
}

main();
